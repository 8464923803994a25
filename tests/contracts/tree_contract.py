"""What every tree of a checkpoint's files does, wherever it lies."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import msgspec
import pytest

from streamkeeper.checkpoints.trees import NOT_THERE, Tree
from streamkeeper.errors import CheckpointChanged, InvalidInput

OUTSIDE = ("../x", "/x", "a//x", "a/../x", "a/./x", "", "a/")


class TreeContract:
    """Run against a ``tree`` that holds nothing, and ``other``, of the same kind."""

    def test_what_is_created_is_read(self, tree: Tree) -> None:
        """Whole, in parts and in the listings of every folder above it; an empty file is a file."""
        tree.create("state/0/1.delta", [b"one", b"", b"two"])
        tree.create("metadata", [])
        found = tree.fresh()
        assert (found.read("state/0/1.delta"), found.read("metadata")) == (b"onetwo", b"")
        assert (found.names(""), found.names("state"), found.names("state/0")) == (
            ["metadata", "state/"],
            ["0/"],
            ["1.delta"],
        )
        assert (found.files(""), found.folders(""), found.names("none")) == (["metadata"], ["state"], [])
        assert [found.has(path) for path in ("metadata", "state", "none")] == [True, False, False]
        stamp = found.stamp("state/0/1.delta")
        assert stamp.size == 6
        assert list(found.parts("state/0/1.delta", 4, stamp)) == [b"onet", b"wo"]
        assert list(found.parts("metadata", 4, found.stamp("metadata"))) == []

    def test_a_change_is_seen_at_once_by_who_made_it(self, tree: Tree) -> None:
        """A listing from before does not hide it."""
        assert tree.names("") == []
        assert tree.absence()
        tree.create("metadata", [b"{}"])
        assert (tree.names(""), tree.has("metadata"), tree.absence()) == (["metadata"], True, "")
        tree.delete(["metadata"])
        assert (tree.names(""), tree.has("metadata")) == ([], False)

    def test_a_second_create_changes_nothing(self, tree: Tree) -> None:
        """Whatever it brings, also the same."""
        tree.create("offsets/0", [b"first"])
        for content in (b"second", b"first", b""):
            with pytest.raises(FileExistsError):
                tree.create("offsets/0", [content])
        assert tree.fresh().read("offsets/0") == b"first"

    def test_one_of_many_writers_wins(self, tree: Tree) -> None:
        """What is there is what the winner brought, all of it."""

        def write(number: int) -> bool:
            try:
                tree.create("metadata", [bytes([number])] * 1000)
            except FileExistsError:
                return False
            return True

        with ThreadPoolExecutor(max_workers=8) as writers:
            won = list(writers.map(write, range(16)))
        assert won.count(True) == 1
        assert tree.fresh().read("metadata") == bytes([won.index(True)]) * 1000

    def test_a_content_that_breaks_off_leaves_nothing(self, tree: Tree) -> None:
        """No file but, perhaps, a folder; another writer can still make it."""

        def broken() -> Iterator[bytes]:
            yield b"x" * 1000
            raise CheckpointChanged("meanwhile")

        with pytest.raises(CheckpointChanged):
            tree.create("offsets/0", broken())
        assert not tree.fresh().has("offsets/0")
        assert tree.fresh().look().files == {}
        tree.create("offsets/0", [b"whole"])
        assert tree.fresh().read("offsets/0") == b"whole"

    def test_a_large_content_is_created_whole_and_once(self, tree: Tree) -> None:
        """Of more than one part, where a tree sends it in parts."""
        part = bytes(range(256)) * 4096 * 5
        tree.create("state/0/large.sst", iter([part] * 3))
        with pytest.raises(FileExistsError):
            tree.create("state/0/large.sst", iter([b"x" * len(part)] * 3))
        stamp = tree.fresh().stamp("state/0/large.sst")
        found, expected = sha256(), sha256()
        for piece in tree.fresh().parts("state/0/large.sst", 1 << 20, stamp):
            found.update(piece)
        expected.update(part * 3)
        assert (stamp.size, found.digest()) == (3 * len(part), expected.digest())

    def test_what_is_deleted_is_gone(self, tree: Tree) -> None:
        """What is not there counts as gone, and the rest stays; folders that hold nothing go when that is asked for."""
        for path in ("metadata", "state/0/1.delta", "state/0/2.delta", "state/1/1.delta", "offsets/0"):
            tree.create(path, [b"x"])
        assert tree.delete(["state/0/1.delta", "state/0/2.delta", "offsets/0", "none", "no/ne"]) == {}
        tree.drop_empty_folders()
        found = tree.fresh()
        assert (found.names(""), found.names("state")) == (["metadata", "state/"], ["1/"])
        with pytest.raises(FileNotFoundError):
            found.read("state/0/1.delta")
        assert tree.delete(["metadata", "state/1/1.delta"]) == {}
        tree.drop_empty_folders()
        assert tree.fresh().names("") == []
        assert tree.fresh().absence() == NOT_THERE

    def test_one_look_tells_everything(self, tree: Tree) -> None:
        """Every file with its stamp, whatever its name; no folder."""
        assert tree.look().files == {}
        for path in ("metadata", ".removing", "state/0/3/left/SSTs/000001-a.sst"):
            tree.create(path, [path.encode()])
        seen = tree.fresh().look()
        assert {path: found.size for path, found in seen.files.items()} == {path: len(path) for path in seen.files}
        assert (len(seen.files), seen.odd) == (3, ())
        assert all(tree.stamp(path) == found for path, found in seen.files.items())

    def test_what_is_asked_while_files_go_is_true_afterwards(self, tree: Tree) -> None:
        """A removal looks at each file just before it goes: no listing from between hides what became of it."""
        for path in ("commits/0", "commits/1"):
            tree.create(path, [b"x"])

        def looked_at() -> Iterator[str]:
            for path in ("commits/0", "commits/1"):
                assert tree.stamp(path).size == 1
                yield path

        assert tree.delete(looked_at()) == {}
        assert [tree.has("commits/0"), tree.has("commits/1"), tree.look().files] == [False, False, {}]

    def test_more_files_go_than_one_request_takes(self, tree: Tree) -> None:
        """All of them."""
        paths = [f"state/{number}" for number in range(1100)]
        with ThreadPoolExecutor(max_workers=8) as writers:
            list(writers.map(lambda path: tree.create(path, [b"x"]), paths))
        assert len(tree.fresh().names("state")) == 1100
        assert tree.delete(paths) == {}
        assert tree.fresh().look().files == {}

    @pytest.mark.parametrize("content", [b"", b"x" * 250])
    def test_a_copy_is_the_same_file(self, tree: Tree, other: Tree, content: bytes) -> None:
        """Of its own: what becomes of the one is nothing to the other. It is made once."""
        other.create("sources/0/9.compact", [content])
        stamp = other.stamp("sources/0/9.compact")
        tree.copy_within(other, "sources/0/9.compact", stamp)
        with pytest.raises(FileExistsError):
            tree.copy_within(other, "sources/0/9.compact", stamp)
        other.delete(["sources/0/9.compact"])
        assert tree.fresh().read("sources/0/9.compact") == content

    def test_a_copy_of_another_file_than_expected_is_not_made(self, tree: Tree, other: Tree) -> None:
        """One that was replaced since its stamp, or is gone."""
        other.create("state/0/3.zip", [b"first"])
        stamp = other.stamp("state/0/3.zip")
        other.delete(["state/0/3.zip"])
        with pytest.raises(FileNotFoundError):
            tree.copy_within(other, "state/0/3.zip", stamp)
        other.create("state/0/3.zip", [b"other"])
        with pytest.raises(CheckpointChanged):
            tree.copy_within(other, "state/0/3.zip", msgspec.structs.replace(stamp, tag=f"{stamp.tag}0"))
        assert not tree.fresh().has("state/0/3.zip")

    @pytest.mark.parametrize("path", OUTSIDE)
    def test_nothing_outside_is_touched(self, tree: Tree, path: str) -> None:
        """Neither read, nor written, nor deleted."""
        for act in (tree.read, tree.stamp, lambda name: tree.create(name, [b"x"]), lambda name: tree.delete([name])):
            with pytest.raises(InvalidInput):
                act(path)
