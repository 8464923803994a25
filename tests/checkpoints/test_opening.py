"""Opening a checkpoint's tree by its location."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamkeeper.checkpoints.opening import open_tree
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import InvalidInput, NotFound, Unsupported


def test_a_local_checkpoint_is_opened_by_every_path_form_of_spark(tmp_path: Path) -> None:
    """A local checkpoint is opened by a path, Java's ``file:/path``, a URL with escapes, and a relative path."""
    root = tmp_path / "a b"
    root.mkdir()
    for location in (str(root), root.as_uri(), f"file:{root}", f"file://localhost{root}", os.path.relpath(root)):
        found = open_tree(location)
        assert isinstance(found, LocalTree)
        assert found.root.samefile(root)


def test_a_local_checkpoint_must_be_a_directory(tmp_path: Path) -> None:
    """A missing path and a file are refused as checkpoints with different messages."""
    file, none = tmp_path / "file", tmp_path / "none"
    file.touch()
    for location, told in (
        (str(none), "does not exist"),
        (str(file), "is not a directory"),
        (none.as_uri(), "does not"),
    ):
        with pytest.raises(NotFound, match=told):
            open_tree(location)


@pytest.mark.parametrize("location", ["gs://bucket/c", "viewfs://name/c", "abfss://c@account/c", "s3n://bucket/c"])
def test_an_unsupported_scheme_is_refused_with_the_supported_alternatives(location: str) -> None:
    """A scheme of an unsupported file system is refused with the supported alternatives."""
    with pytest.raises(Unsupported, match=r"scheme .*:// is not supported \(use a directory"):
        open_tree(location)


@pytest.mark.parametrize("location", ["", "file://host/path", "s3a:///prefix", "hdfs:///path", "hdfs://name:8020"])
def test_an_incomplete_or_remote_location_is_refused(location: str) -> None:
    """A location without a path, bucket or NameNode, or on the disk of a different machine, is refused."""
    with pytest.raises(InvalidInput):
        open_tree(location)
