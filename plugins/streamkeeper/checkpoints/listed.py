"""A tree of files that lists every folder once. Whether a file exists follows from the listings, without a request per
file.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.checkpoints.trees import Tree

_DEEPEST = 7
"""The depth of ``state/<operator>/<partition>/<store>/_stateSchema/...``. A path that is deeper results from a linked
folder that contains itself.
"""


class Listed:
    """A listing of a tree. The query may keep running, so a listed file may no longer exist when it is read."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._files: dict[str, list[str]] = {}
        self._folders: dict[str, list[str]] = {}
        self._there: dict[str, frozenset[str]] = {}

    def files(self, folder: str) -> list[str]:
        """Return the names of the files directly in a folder, sorted; none if the folder is missing. ``""`` is the tree
        itself.
        """
        self._list(folder)
        return self._files[folder]

    def folders(self, folder: str) -> list[str]:
        """Return the names of a folder's direct subfolders, sorted."""
        self._list(folder)
        return self._folders[folder]

    def has(self, path: str) -> bool:
        """Whether the listing contains the file."""
        folder, _, name = path.rpartition("/")
        if folder not in self._there:
            self._there[folder] = frozenset(self.files(folder))
        return name in self._there[folder]

    def below(self, folder: str) -> Iterator[str]:
        """Yield the paths of all files in a folder and in the folders below it.

        Files that are deeper in the tree than any file of a checkpoint are left out, because only a linked folder that
        contains itself leads there.
        """
        above = f"{folder}/" if folder else ""
        yield from (f"{above}{name}" for name in self.files(folder))
        if above.count("/") < _DEEPEST:
            for name in self.folders(folder):
                yield from self.below(f"{above}{name}")

    def _list(self, folder: str) -> None:
        if folder not in self._files:
            names = self.tree.names(folder)
            self._files[folder] = [name for name in names if not name.endswith("/")]
            self._folders[folder] = [name[:-1] for name in names if name.endswith("/")]
