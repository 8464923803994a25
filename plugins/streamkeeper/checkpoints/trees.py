"""A checkpoint as a tree of files, wherever it lies.

What holds on every kind of tree: a file appears whole or not at all, ``create`` makes it for one writer only, and
nothing is renamed. So a checkpoint version is published by the file that is created last, and goes by the one that is
deleted first: its ``metadata``.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from streamkeeper.errors import CheckpointChanged, InvalidInput
from streamkeeper.model.snapshot import Stamp
from streamkeeper.private_files import make_folders, opener, sync_folder

PART_BYTES = 4 * 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_INSIDE = re.compile(r"[^/\0]+(/[^/\0]+)*")
_UPWARDS = frozenset({".", ".."})
NOT_THERE = "does not exist"


class Seen(msgspec.Struct, frozen=True):
    """All that is in a tree, by paths. ``files``: what is no folder; ``odd``: of that what is no regular file either,
    and ``""`` where the tree itself is a link.
    """

    files: dict[str, Stamp]
    odd: tuple[str, ...] = ()


class Tree(ABC):
    """Paths are relative and ``/``-separated. A file that is gone raises FileNotFoundError, as opening one does.

    ``url``: where it lies; ``location``: the same as Hadoop writes paths, without escapes, such as ``file:/path``;
    ``spark_path``: as Spark is given it. ``checksums``: whether a ``.crc`` file stands beside each of Spark's, as it
    does on a local disk.
    """

    url: str
    location: str
    spark_path: str
    checksums = False

    @property
    def name(self) -> str:
        """The last part of its place: of a checkpoint version the version's."""
        return self.location.rpartition("/")[2]

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Names in a folder, in order, those of folders with ``/`` at their end; none where there is no folder."""

    @abstractmethod
    def look(self) -> Seen:
        """Everything in it, by one look; no link is followed, and what disappears meanwhile is left out."""

    def stamps(self) -> Iterator[tuple[str, Stamp]]:
        """Every file and what it is now, one after the other: of a tree that may be too large to be held."""
        yield from self.fresh().look().files.items()

    @abstractmethod
    def read(self, path: str) -> bytes:
        """A whole small file."""

    @abstractmethod
    def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
        """A file's content in order, ``size`` bytes at a time; raises CheckpointChanged unless it is ``expected``."""

    @abstractmethod
    def stamp(self, path: str) -> Stamp:
        """What the file is now."""

    @abstractmethod
    def create(self, path: str, content: Iterable[bytes]) -> None:
        """Write a file that is not there, its content in parts, with the folders above it: it appears whole or not at
        all, and stays. Raises FileExistsError where there is one.
        """

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> dict[str, str]:
        """Remove files; those that are gone count as removed. Path -> why, of those that could not be.

        They go in any order, all before it returns. On a local disk each goes as its path is asked for, and folders
        stay: ``drop_empty_folders`` takes them.
        """

    def drop_empty_folders(self) -> None:  # noqa: B027 - a tree may have none
        """Remove every folder in which there is no file, also the tree itself; no link is followed."""

    def empty(self) -> dict[str, Stamp]:
        """Remove all that is in it, and what holds it, as far as that goes; what was there."""
        files = self.fresh().look().files
        self.delete(files)
        self.drop_empty_folders()
        return files

    def copy_within(self, source: Tree, path: str, expected: Stamp) -> None:
        """Create a file that is the same file of another tree; raises as ``parts`` and ``create`` do.

        A tree whose store can copy does so, if ``source`` is of the same store: no byte passes through here.
        """
        self.create(path, source.parts(path, PART_BYTES, expected))

    def must_take_files(self) -> None:
        """Raise InvalidInput unless files can be created here, and only once under one name; none is left."""
        probe = f".probe-{uuid.uuid4().hex}"
        # Some servers make a bucket that is not there with its first object.
        self.fresh().names("")
        self.create(probe, [b""])
        try:
            self.create(probe, [b""])
        except FileExistsError:
            return
        finally:
            self.delete([probe])
        raise InvalidInput(
            f"{self.url} lets two writers create the same file: two drivers could both claim a batch",
            hint="use a store that supports If-None-Match",
        )

    def fresh(self) -> Tree:
        """The same checkpoint, looked at anew: a tree may go on telling what it has found once."""
        return self

    def absence(self) -> str:
        """Why there is nothing to look at, as ``does not exist``; empty where there is."""
        return "" if self.names("") else NOT_THERE

    def files(self, folder: str) -> list[str]:
        """Names of a folder's files, in order; none where there is no folder. ``""`` is the tree itself."""
        return [name for name in self.names(folder) if not name.endswith("/")]

    def folders(self, folder: str) -> list[str]:
        """Names of a folder's folders, in order."""
        return [name[:-1] for name in self.names(folder) if name.endswith("/")]

    def __str__(self) -> str:
        return self.where("")

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
    """A local directory, which need not be there. What is written is its owner's alone.

    ``lasting``: and on the disk itself before it has its name; scratch space need not outlive a power cut.
    """

    checksums = True

    def __init__(self, root: Path, *, lasting: bool = True) -> None:
        self.root = root
        self._lasting = lasting
        self._root = str(root)
        self.url = root.absolute().as_uri()
        self.location = f"file:{root.absolute()}"
        self.spark_path = self._root

    def absence(self) -> str:
        try:
            found = os.stat(self._root)
        except (FileNotFoundError, NotADirectoryError):
            # A link to nothing is in the way; a directory that was made meanwhile is not.
            return "is not a directory" if os.path.islink(self._root) else NOT_THERE
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return "has too long a name"
            raise
        return "" if stat.S_ISDIR(found.st_mode) else "is not a directory"

    def must_take_files(self) -> None:
        """The directory is made if it is not there, and stays."""
        probe = self.root / f".probe-{uuid.uuid4().hex}"
        try:
            make_folders(self.root)
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise InvalidInput(f"{self.root} cannot be written: {error.strerror}") from error

    def where(self, path: str) -> str:
        return str(self.root / path)

    def names(self, folder: str) -> list[str]:
        try:
            with os.scandir(f"{self._root}/{folder}") as entries:
                return sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def look(self) -> Seen:
        if self.root.is_symlink():
            return Seen({}, ("",))
        files: dict[str, Stamp] = {}
        odd: list[str] = []
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(f"{self._root}/{folder}") as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}".lstrip("/")
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                        continue
                    with suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        files[path] = _stamp(found)
                        if not stat.S_ISREG(found.st_mode):
                            odd.append(path)
        return Seen(files, tuple(sorted(odd)))

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

    def has(self, path: str) -> bool:
        return os.path.isfile(self._path(path))

    def create(self, path: str, content: Iterable[bytes]) -> None:
        """A hard link to a finished file: the file system lets exactly one writer make it."""
        target = self._path(path)
        folder = os.path.dirname(target)
        draft = f"{folder}/.{uuid.uuid4().hex}.tmp"
        try:
            with self._begin(draft, folder) as file:
                for part in content:
                    file.write(part)
                if self._lasting:
                    file.flush()
                    os.fsync(file.fileno())
            os.link(draft, target)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft)
            raise
        os.unlink(draft)
        if self._lasting:
            sync_folder(folder)

    def _begin(self, draft: str, folder: str) -> IO[bytes]:
        try:
            return open(draft, "xb", opener=opener)
        except (FileNotFoundError, NotADirectoryError):
            # Most files come where others are.
            make_folders(folder, lasting=self._lasting)
            return open(draft, "xb", opener=opener)

    def delete(self, paths: Iterable[str]) -> dict[str, str]:
        """No link is followed, of a file or a folder."""
        kept: dict[str, str] = {}
        touched: set[tuple[str, ...]] = set()
        for path in paths:
            *folders, name = check_inside(path).split("/")
            try:
                with open_folder(self._root, folders) as folder:
                    os.unlink(name, dir_fd=folder)
                    touched.add(tuple(folders))
            except FileNotFoundError:
                continue
            except OSError as error:
                kept[path] = error.strerror or str(error)
        for changed in touched if self._lasting else ():
            with suppress(OSError), open_folder(self._root, changed) as folder:
                os.fsync(folder)
        return kept

    def drop_empty_folders(self) -> None:
        with suppress(FileNotFoundError):
            for _, folders, _, at in os.fwalk(self._root, topdown=False):
                for name in folders:
                    with suppress(OSError):
                        os.rmdir(name, dir_fd=at)
        with suppress(OSError):
            os.rmdir(self._root)

    def _require(self, path: str, file: IO[bytes], expected: Stamp) -> None:
        if not _stamp(os.fstat(file.fileno())).is_same_file(expected):
            raise CheckpointChanged(f"{self.root / path} changed while it was being read")

    def _path(self, path: str) -> str:
        # Text: joining Path objects was half of a look at a large directory.
        return f"{self._root}/{check_inside(path)}"


@contextmanager
def open_folder(root: str | Path, below: Iterable[str] = ()) -> Iterator[int]:
    """A descriptor of a folder; raises OSError where a link is in its place, or leads to it from ``root``."""
    folder = os.open(root, _FOLDER)
    try:
        for name in below:
            above, folder = folder, os.open(name, _FOLDER, dir_fd=folder)
            os.close(above)
        yield folder
    finally:
        os.close(folder)


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
