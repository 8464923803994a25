"""The contract tests for every tree of a checkpoint's files, independent of its storage."""

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
    """The contract of every tree, run against an empty ``tree`` and an ``other`` one of the same kind."""

    def test_what_is_created_is_read(self, tree: Tree) -> None:
        """A created file can be read completely and in parts, and is listed in every folder above it; an empty file is
        a file.
        """
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

    def test_a_tree_sees_its_own_changes_at_once(self, tree: Tree) -> None:
        """A tree sees its own creations and deletions at once, even if it has listed the folder before."""
        assert tree.names("") == []
        assert tree.absence()
        tree.create("metadata", [b"{}"])
        assert (tree.names(""), tree.has("metadata"), tree.absence()) == (["metadata"], True, "")
        tree.delete(["metadata"])
        assert (tree.names(""), tree.has("metadata")) == ([], False)

    def test_a_second_create_changes_nothing(self, tree: Tree) -> None:
        """Creating an existing file raises ``FileExistsError`` and leaves it unchanged, even with the same content."""
        tree.create("offsets/0", [b"first"])
        for content in (b"second", b"first", b""):
            with pytest.raises(FileExistsError):
                tree.create("offsets/0", [content])
        assert tree.fresh().read("offsets/0") == b"first"

    def test_one_of_many_writers_wins(self, tree: Tree) -> None:
        """If several writers create the same file at the same time, exactly one succeeds and the file has its complete
        content.
        """

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
        """Content that fails while it is written leaves no file behind, and another writer can still create the
        file.
        """

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
        """A file that is uploaded in several parts is stored completely, and a second creation raises
        ``FileExistsError``.
        """
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

    def test_deleting_removes_exactly_the_named_files(self, tree: Tree) -> None:
        """Deleting removes exactly the given files, accepts missing ones, and empty folders are removed on request."""
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

    def test_one_look_returns_every_file_with_its_stamp(self, tree: Tree) -> None:
        """One look returns every file with its stamp, whatever its name, and no folders."""
        assert tree.look().files == {}
        for path in ("metadata", ".removing", "state/0/3/left/SSTs/000001-a.sst"):
            tree.create(path, [path.encode()])
        seen = tree.fresh().look()
        assert {path: found.size for path, found in seen.files.items()} == {path: len(path) for path in seen.files}
        assert (len(seen.files), seen.odd) == (3, ())
        assert all(tree.stamp(path) == found for path, found in seen.files.items())

    def test_no_cached_listing_hides_files_deleted_after_their_stamps_were_read(self, tree: Tree) -> None:
        """After a deletion that reads each file's stamp just before removing it, no cached listing hides that the files
        were deleted.
        """
        for path in ("commits/0", "commits/1"):
            tree.create(path, [b"x"])

        def looked_at() -> Iterator[str]:
            for path in ("commits/0", "commits/1"):
                assert tree.stamp(path).size == 1
                yield path

        assert tree.delete(looked_at()) == {}
        assert [tree.has("commits/0"), tree.has("commits/1"), tree.look().files] == [False, False, {}]

    def test_more_files_than_one_request_accepts_are_deleted(self, tree: Tree) -> None:
        """Deleting 1,100 files, more than one request accepts, removes all of them."""
        paths = [f"state/{number}" for number in range(1100)]
        with ThreadPoolExecutor(max_workers=8) as writers:
            list(writers.map(lambda path: tree.create(path, [b"x"]), paths))
        assert len(tree.fresh().names("state")) == 1100
        assert tree.delete(paths) == {}
        assert tree.fresh().look().files == {}

    @pytest.mark.parametrize("content", [b"", b"x" * 250])
    def test_a_copy_is_the_same_file(self, tree: Tree, other: Tree, content: bytes) -> None:
        """A copy has the same content, is independent of the original, and can be created only once."""
        other.create("sources/0/9.compact", [content])
        stamp = other.stamp("sources/0/9.compact")
        tree.copy_within(other, "sources/0/9.compact", stamp)
        with pytest.raises(FileExistsError):
            tree.copy_within(other, "sources/0/9.compact", stamp)
        other.delete(["sources/0/9.compact"])
        assert tree.fresh().read("sources/0/9.compact") == content

    def test_a_copy_of_another_file_than_expected_is_not_made(self, tree: Tree, other: Tree) -> None:
        """A file that was deleted or replaced since its stamp was read is not copied."""
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
    def test_a_path_outside_the_tree_is_refused(self, tree: Tree, path: str) -> None:
        """A path outside the tree is refused for reading, stamping, creating and deleting."""
        for act in (tree.read, tree.stamp, lambda name: tree.create(name, [b"x"]), lambda name: tree.delete([name])):
            with pytest.raises(InvalidInput):
                act(path)
