"""In-memory checkpoints: files below one root, which all processes of a simulation share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from streamkeeper.checkpoints import trees
from streamkeeper.checkpoints.trees import LocalTree, Seen, Tree
from streamkeeper.errors import CheckpointChanged, InvalidInput
from streamkeeper.model.records.snapshot import Stamp

NOT_A_FOLDER = "is not a directory"

check_inside = lru_cache(16384)(trees.check_inside)


class Files:
    """A disk with the files of checkpoints, without links; paths are absolute.

    ``now_ns``: returns the time of a change, in nanoseconds.
    """

    def __init__(self, now_ns: Callable[[], int] = lambda: 0) -> None:
        self._now_ns = now_ns
        self._folders: dict[str, dict[str, tuple[bytes, Stamp] | None]] = {}
        """Folder -> name -> content; None for a folder."""
        self._inodes = 0

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; names of folders have ``/`` at the end."""
        inside = self._folders.get(folder)
        return sorted(f"{name}/" if found is None else name for name, found in inside.items()) if inside else []

    def get(self, path: str) -> tuple[bytes, Stamp] | None:
        """Return a file's content and stamp; None if the file does not exist."""
        folder, _, name = path.rpartition("/")
        inside = self._folders.get(folder)
        return inside.get(name) if inside is not None else None

    def is_folder(self, path: str) -> bool:
        """Return whether a folder exists."""
        return path in self._folders

    def create(self, path: str, content: bytes) -> None:
        """Create a file and the missing folders above it; raises FileExistsError and NotADirectoryError."""
        folder, _, name = path.rpartition("/")
        inside = self._make(folder)
        if name in inside:
            raise FileExistsError(path)
        self._inodes += 1
        now = self._now_ns()
        stamp = Stamp(size=len(content), modified=now, changed=now, tag=f"0.{self._inodes:x}")
        inside[name] = (content, stamp)

    def remove(self, path: str) -> None:
        """Remove a file that exists."""
        folder, _, name = path.rpartition("/")
        del self._folders[folder][name]

    def below(self, root: str) -> dict[str, tuple[bytes, Stamp]]:
        """Return path below ``root`` -> content and stamp."""
        above = f"{root}/"
        return {
            f"{folder}/{name}"[len(above) :]: found
            for folder, inside in self._folders.items()
            if folder == root or folder.startswith(above)
            for name, found in inside.items()
            if found is not None
        }

    def clear(self, root: str) -> None:
        """Remove every file below ``root``, and the folders."""
        for path in self.below(root):
            self.remove(f"{root}/{path}")
        self.drop_empty_folders(root)

    def drop_empty_folders(self, root: str) -> None:
        """Remove every folder without files, including the root."""
        for folder in sorted(self._folders, key=len, reverse=True):
            if (folder == root or folder.startswith(f"{root}/")) and not self._folders[folder]:
                del self._folders[folder]
                above, _, name = folder.rpartition("/")
                self._folders[above].pop(name)

    def _make(self, folder: str) -> dict[str, tuple[bytes, Stamp] | None]:
        found = self._folders.get(folder)
        if found is None:
            found = self._folders[folder] = {}
            above, _, name = folder.rpartition("/")
            if name and self._make(above).setdefault(name, None) is not None:
                del self._folders[folder]
                raise NotADirectoryError(folder)
        return found


class _InMemory(Tree):
    """The common base class of the simulated trees. ``_root``: the path, or the URL, of the tree."""

    _root: str
    _files: Files
    _seam: Callable[[], None]
    """Called before an access, so that other actors may run."""

    def absence(self) -> str:
        if self._files.is_folder(self._root):
            return ""
        return NOT_A_FOLDER if self._files.get(self._root) is not None else trees.NOT_THERE

    def must_take_files(self) -> None:
        if self.absence() == NOT_A_FOLDER:
            raise InvalidInput(f"{self._root} cannot be written: Not a directory")

    def where(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def names(self, folder: str) -> list[str]:
        self._seam()
        return self._files.names(f"{self._root}/{folder}" if folder else self._root)

    def look(self) -> Seen:
        return Seen({path: stamp for path, (_, stamp) in self._files.below(self._root).items()})

    def read(self, path: str) -> bytes:
        self._seam()
        return self._found(path)[0]

    def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
        content, stamp = self._found(path)
        if not stamp.is_same_file(expected):
            raise CheckpointChanged(f"{self.where(path)} changed while it was being read")
        for start in range(0, expected.size, size):
            yield content[start : start + size]

    def stamp(self, path: str) -> Stamp:
        return self._found(path)[1]

    def has(self, path: str) -> bool:
        return self._files.get(self._path(path)) is not None

    def create(self, path: str, content: Iterable[bytes]) -> None:
        self._seam()
        target = self._path(path)
        self._files.create(target, b"".join(content))

    def delete(self, paths: Iterable[str]) -> dict[str, str]:
        self._seam()
        kept: dict[str, str] = {}
        for path in paths:
            target = self._path(path)
            if self._files.get(target) is not None:
                self._files.remove(target)
            elif self._files.is_folder(target):
                kept[path] = "Is a directory"
        return kept

    def drop_empty_folders(self) -> None:
        self._files.drop_empty_folders(self._root)

    def _found(self, path: str) -> tuple[bytes, Stamp]:
        found = self._files.get(self._path(path))
        if found is None:
            raise FileNotFoundError(self.where(path))
        return found

    def _path(self, path: str) -> str:
        return f"{self._root}/{check_inside(path)}"


class SimulatedTree(_InMemory, LocalTree):
    """A tree of the simulated disk, which other code treats as a local directory. ``seam``: called before each
    access.
    """

    def __init__(
        self, files: Files, root: Path, *, lasting: bool = True, seam: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(root, lasting=lasting)
        self._files, self._seam = files, seam


class SharedTree(_InMemory):
    """A tree that every machine can reach, as in HDFS. ``seam``: called before each access; raises StoreUnavailable if
    the storage does not respond.
    """

    def __init__(self, files: Files, url: str, *, seam: Callable[[], None] = lambda: None) -> None:
        self.url = self.location = self.spark_path = self._root = url
        self._files, self._seam = files, seam
