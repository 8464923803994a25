"""What a checkpoint says of its own place."""

from __future__ import annotations

import pytest

from streamkeeper.checkpoints.relocating import relocated

METADATA = "state/3/_metadata/v2/17"


@pytest.mark.parametrize("location", ["file:/new place", "s3a://bucket/new/"])
def test_paths_of_schemas_follow_the_checkpoint(location: str) -> None:
    """Whatever the old place was, also one that looks like a checkpoint inside another."""
    old = "s3a://b/state/0/_stateSchema/c/state/3/_stateSchema/default/0_a"
    content = b'v2\n{"stateStoreInfo":[{"storeName":"default","stateSchemaFilePaths":["%s"]}]}' % old.encode()
    new = f"{location.rstrip('/')}/state/3/_stateSchema/default/0_a"
    expected = b'v2\n{"stateStoreInfo":[{"storeName":"default","stateSchemaFilePaths":["%s"]}]}' % new.encode()
    assert relocated(METADATA, content, location) == expected


@pytest.mark.parametrize("content", [b"", b"v2", b"v2\n{", b"v2\n[]", b'v2\n{"stateStoreInfo":[]}', b"\xff\n\xff"])
def test_what_cannot_be_read_is_left_as_it_is(content: bytes) -> None:
    """Spark has the word on it."""
    assert relocated(METADATA, content, "file:/new") == content


@pytest.mark.parametrize("path", ["metadata", "offsets/1", "state/0/0/1.delta", "state/0/_metadata/metadata"])
def test_other_files_hold_no_place(path: str) -> None:
    """Whatever their content looks like; a source's log names its input, which does not move."""
    content = b'v2\n{"stateStoreInfo":[{"stateSchemaFilePaths":["/a/state/0/_stateSchema/b"]}]}'
    assert relocated(path, content, "file:/new") == content
