"""A checkpoint directory as a tree of files, wherever it lies; only what reading one needs."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from streamkeeper.errors import CheckpointChanged, InvalidInput
from streamkeeper.model.snapshot import Stamp

_INSIDE = re.compile(r"[^/\0]+(/[^/\0]+)*")
_UPWARDS = frozenset({".", ".."})


class Tree(ABC):
    """Paths are relative and ``/``-separated. A file that is gone raises FileNotFoundError, as opening one does."""

    url: str

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Names in a folder, in order, those of folders with ``/`` at their end; none where there is no folder."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """A whole small file."""

    @abstractmethod
    def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
        """A file's content in order, ``size`` bytes at a time; raises CheckpointChanged unless it is ``expected``."""

    @abstractmethod
    def stamp(self, path: str) -> Stamp:
        """What the file is now."""

    def fresh(self) -> Tree:
        """The same checkpoint, looked at anew: a tree may go on telling what it has found once."""
        return self

    def where(self, path: str) -> str:
        """A file's or folder's full name, for messages."""
        return f"{self.url}/{path}" if path else self.url

    def has(self, path: str) -> bool:
        """Whether there is such a file."""
        try:
            self.stamp(path)
        except FileNotFoundError:
            return False
        return True


class LocalTree(Tree):
    """A local directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._root = str(root)
        self.url = root.absolute().as_uri()

    def where(self, path: str) -> str:
        return str(self.root / path)

    def names(self, folder: str) -> list[str]:
        try:
            with os.scandir(f"{self._root}/{folder}") as entries:
                return sorted(f"{each.name}/" if each.is_dir() else each.name for each in entries)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, path: str) -> bytes:
        with open(self._path(path), "rb") as file:
            return file.read()

    def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
        with open(self._path(path), "rb") as file:
            self._require(path, file, expected)
            for start in range(0, expected.size, size):
                yield file.read(min(size, expected.size - start))
            self._require(path, file, expected)

    def stamp(self, path: str) -> Stamp:
        found = os.stat(self._path(path))
        return _stamp(found)

    def _require(self, path: str, file: IO[bytes], expected: Stamp) -> None:
        """Its change time is left out: a file that is removed while it is read has a new one, and its old content."""
        found = _stamp(os.fstat(file.fileno()))
        if (found.size, found.modified, found.tag) != (expected.size, expected.modified, expected.tag):
            raise CheckpointChanged(f"{self.root / path} changed while it was being read")

    def _path(self, path: str) -> str:
        # Text: joining Path objects was half of a look at a large directory.
        return f"{self._root}/{check_inside(path)}"


def check_inside(path: str) -> str:
    """Return ``path`` if it names a file inside a tree, else raise InvalidInput."""
    if not _INSIDE.fullmatch(path) or not _UPWARDS.isdisjoint(path.split("/")):
        raise InvalidInput(f"{path!r} is not a path inside a checkpoint")
    return path


def _stamp(found: os.stat_result) -> Stamp:
    return Stamp(
        size=found.st_size,
        modified=found.st_mtime_ns,
        changed=found.st_ctime_ns,
        tag=f"{found.st_dev:x}.{found.st_ino:x}",
    )
