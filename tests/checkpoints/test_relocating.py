"""Paths of the checkpoint itself within its own files."""

from __future__ import annotations

import pytest

from streamkeeper.checkpoints.relocating import relocated

METADATA = "state/3/_metadata/v2/17"


@pytest.mark.parametrize("location", ["file:/new place", "s3a://bucket/new/"])
def test_paths_of_schemas_follow_the_checkpoint(location: str) -> None:
    """Schema paths in operator metadata are changed to the new location, even if the old one looks like a checkpoint
    inside a different one.
    """
    old = "s3a://b/state/0/_stateSchema/c/state/3/_stateSchema/default/0_a"
    content = b'v2\n{"stateStoreInfo":[{"storeName":"default","stateSchemaFilePaths":["%s"]}]}' % old.encode()
    new = f"{location.rstrip('/')}/state/3/_stateSchema/default/0_a"
    expected = b'v2\n{"stateStoreInfo":[{"storeName":"default","stateSchemaFilePaths":["%s"]}]}' % new.encode()
    assert relocated(METADATA, content, location) == expected


@pytest.mark.parametrize("content", [b"", b"v2", b"v2\n{", b"v2\n[]", b'v2\n{"stateStoreInfo":[]}', b"\xff\n\xff"])
def test_unparsable_operator_metadata_is_left_unchanged(content: bytes) -> None:
    """Operator metadata that cannot be parsed is left unchanged."""
    assert relocated(METADATA, content, "file:/new") == content


@pytest.mark.parametrize("path", ["metadata", "offsets/1", "state/0/0/1.delta", "state/0/_metadata/metadata"])
def test_all_files_except_operator_metadata_are_left_unchanged(path: str) -> None:
    """All other files are left unchanged, whatever their content."""
    content = b'v2\n{"stateStoreInfo":[{"stateSchemaFilePaths":["/a/state/0/_stateSchema/b"]}]}'
    assert relocated(path, content, "file:/new") == content
