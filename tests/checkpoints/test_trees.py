"""Trees on disk and in memory: the common contract, and what only a directory can do."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest

from streamkeeper.checkpoints.trees import LocalTree, Seen, Tree
from tests.checkpoints.tree_kinds import MemoryTree
from tests.contracts.tree_contract import TreeContract


class TestLocalTree(TreeContract):
    """A directory satisfies the contract of every tree."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Tree:
        return LocalTree(tmp_path / "v0001")

    @pytest.fixture
    def other(self, tmp_path: Path) -> Tree:
        return LocalTree(tmp_path / "v0002")


class TestMemoryTree(TreeContract):
    """The tree in memory, on which other tests run, satisfies the contract of every tree."""

    @pytest.fixture
    def tree(self) -> Tree:
        return MemoryTree()

    @pytest.fixture
    def other(self) -> Tree:
        return MemoryTree()


def test_a_created_file_is_synced_before_it_is_linked_to_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creating a file syncs its content, then links its name, then syncs the folder, and also syncs the parents of new
    folders.
    """
    acts: list[str] = []
    sync, link = os.fsync, os.link

    def note_sync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        acts.append("content" if path.endswith(".tmp") else Path(path).relative_to(tmp_path).as_posix())
        sync(descriptor)

    def note_link(source: str, target: str) -> None:
        acts.append("name")
        link(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "link", note_link)
    LocalTree(tmp_path / "v1").create("state/0", [b"x"])
    assert acts == [".", "v1", "content", "name", "v1/state"]


def test_created_files_and_folders_are_accessible_only_to_their_owner(tmp_path: Path) -> None:
    """Created files and folders are accessible only to their owner, whatever the umask."""
    before = os.umask(0)
    try:
        LocalTree(tmp_path / "v1").create("state/0", [b"x"])
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "v1").rglob("*")}
    assert modes == {"state": 0o700, "0": 0o600}


def test_no_link_is_followed_when_files_are_deleted(tmp_path: Path) -> None:
    """Deleting does not follow a linked folder, which may lead into a different checkpoint, and deletes a linked file
    without its target.
    """
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "1").write_text("mine")
    tree = LocalTree(tmp_path / "v1")
    tree.create("metadata", [b"{}"])
    (tmp_path / "v1" / "offsets").symlink_to(tmp_path / "other")
    (tmp_path / "v1" / "commits").symlink_to(tmp_path / "other" / "1")
    assert tree.delete(["offsets/1", "commits"]).keys() == {"offsets/1"}
    assert (tmp_path / "other" / "1").read_text() == "mine"
    assert tree.names("") == ["metadata", "offsets/"]


def test_listing_a_tree_and_dropping_empty_folders_follow_no_link(tmp_path: Path) -> None:
    """Listing a tree and dropping its empty folders follow no link: not of a folder, a file or the tree itself."""
    (tmp_path / "other" / "empty").mkdir(parents=True)
    (tmp_path / "other" / "1").write_text("mine")
    tree = LocalTree(tmp_path / "v1")
    tree.create("metadata", [b"{}"])
    (tmp_path / "v1" / "offsets").symlink_to(tmp_path / "other")
    (tmp_path / "v1" / "commits").symlink_to(tmp_path / "other" / "1")
    assert (sorted(tree.look().files), tree.look().odd) == (["commits", "metadata", "offsets"], ("commits", "offsets"))
    (tmp_path / "link").symlink_to(tmp_path / "other")
    assert LocalTree(tmp_path / "link").look() == Seen({}, ("",))
    for root in ("v1", "link"):
        LocalTree(tmp_path / root).drop_empty_folders()
    assert (tmp_path / "other" / "empty").is_dir()
    assert (tmp_path / "link").is_symlink()


def test_a_file_that_cannot_be_deleted_is_reported(tmp_path: Path) -> None:
    """A path that cannot be deleted is reported, and the other files are deleted."""
    tree = LocalTree(tmp_path)
    tree.create("state/0", [b"x"])
    tree.create("offsets/0", [b"x"])
    assert tree.delete(["state", "offsets/0"]).keys() == {"state"}
    assert tree.look().files.keys() == {"state/0"}


def test_the_contract_sees_a_tree_that_overwrites(tmp_path: Path) -> None:
    """Negative control: a tree whose create overwrites fails the contract's race of writers and its second create."""

    class Overwriting(MemoryTree):
        def create(self, path: str, content: Iterable[bytes]) -> None:
            self.put(path, b"".join(content))

    with pytest.raises(pytest.fail.Exception):
        TreeContract().test_a_second_create_changes_nothing(Overwriting())
    with pytest.raises(AssertionError):
        TreeContract().test_one_of_many_writers_wins(Overwriting())
