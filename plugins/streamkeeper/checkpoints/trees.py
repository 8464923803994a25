"""A checkpoint as a tree of files, on any kind of storage.

These guarantees apply to every kind of tree: a file appears whole or not at all, ``create`` succeeds for one writer
only, and no file is renamed. Therefore the file created last, its ``metadata``, publishes a checkpoint version;
deleting that file first removes the version.
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
from io import BytesIO
from pathlib import Path
from typing import IO

import msgspec

from streamkeeper.errors import CheckpointChanged, InvalidInput
from streamkeeper.model.records.snapshot import Stamp
from streamkeeper.system.private_files import FOLDER, make_folders, opener, sync_folder

PART_BYTES = 4 * 1024 * 1024
_EVERYBODY = 0o777
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_INSIDE = re.compile(r"[^/\0]+(/[^/\0]+)*")
_UPWARDS = frozenset({".", ".."})
NOT_THERE = "does not exist"


class Seen(msgspec.Struct, frozen=True):
    """The content of a tree, by path. ``files``: everything except folders. ``odd``: paths in ``files`` that are not
    regular files, and ``""`` if the tree itself is a link.
    """

    files: dict[str, Stamp]
    odd: tuple[str, ...] = ()


class Tree(ABC):
    """A tree of files. Paths are relative and ``/``-separated. Every access to a missing file raises FileNotFoundError.

    ``checksums``: whether a ``.crc`` file is stored next to each of Spark's files, as on a local disk.
    """

    url: str
    """The tree's location as a URL."""
    location: str
    """The location as Hadoop writes paths, without escapes, such as ``file:/path``."""
    spark_path: str
    """The location in the form that Spark accepts."""
    checksums = False

    @property
    def name(self) -> str:
        """The last part of the location; for a checkpoint version, the version's name."""
        return self.location.rpartition("/")[2]

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted, with ``/`` after the names of subfolders; none if the folder does not
        exist.
        """

    def names_after(self, folder: str, name: str) -> list[str]:
        """Return the present names in a folder as ``names`` does, but only those that sort after ``name``."""
        return [found for found in self.fresh().names(folder) if found > name]

    @abstractmethod
    def look(self) -> Seen:
        """List the whole tree once; links are not followed, and entries that disappear during the walk are left out."""

    def stamps(self) -> Iterator[tuple[str, Stamp]]:
        """Yield every file and its present stamp, one by one, for a tree that may be too large for memory."""
        yield from self.fresh().look().files.items()

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Read a whole small file."""

    def open(self, path: str) -> IO[bytes]:
        """Open a file for reads at any position. By default the whole file is read first."""
        return BytesIO(self.read(path))

    @abstractmethod
    def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
        """Yield a file's content in order, ``size`` bytes at a time; raises CheckpointChanged unless its stamp is
        ``expected``.
        """

    @abstractmethod
    def stamp(self, path: str) -> Stamp:
        """Return the file's present stamp, which changes when the file is replaced."""

    @abstractmethod
    def create(self, path: str, content: Iterable[bytes]) -> None:
        """Create a file, and its missing parent folders; ``content``: the parts of the file's content.

        The file is either complete and durable, or does not exist. Raises FileExistsError if it already exists.
        """

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> dict[str, str]:
        """Remove files; missing ones count as removed. Returns path -> reason for the files that could not be removed.

        Only a local disk guarantees the order of removal: each file is removed when its path is taken from ``paths``.
        Folders stay: ``drop_empty_folders`` removes them.
        """

    def drop_empty_folders(self) -> None:  # noqa: B027 - a tree may have none
        """Remove every folder without files, including the tree itself; links are not followed."""

    def empty(self) -> dict[str, Stamp]:
        """Remove the tree with all its files and folders, except those that cannot be removed. Return the files that
        the tree contained before the removal.
        """
        files = self.fresh().look().files
        self.delete(files)
        self.drop_empty_folders()
        return files

    def copy_within(self, source: Tree, path: str, expected: Stamp) -> None:
        """Copy the file at ``path`` in ``source`` to the same path in this tree; raises the errors of ``parts`` and
        ``create``.

        If ``source`` is in the same store and the store can copy, no byte passes through this process.
        """
        self.create(path, source.parts(path, PART_BYTES, expected))

    def must_take_files(self) -> None:
        """Raise InvalidInput unless the tree accepts new files and rejects a second file of the same name; leaves no
        file.
        """
        probe = f".probe-{uuid.uuid4().hex}"
        # Some servers create a missing bucket with its first object.
        self.fresh().names("")
        # Nobody else knows the name: an existing file is this one, whose creation was repeated after a lost answer.
        with suppress(FileExistsError):
            self.create(probe, [b""])
        try:
            self.create(probe, [b""])
        except FileExistsError:
            return
        finally:
            self.delete([probe])
        raise InvalidInput(
            f"{self.url} lets two writers create the same file, so two drivers could claim the same batch",
            hint="use a store that supports If-None-Match",
        )

    def fresh(self) -> Tree:
        """Return the same tree without cached listings, which may be out of date."""
        return self

    def absence(self) -> str:
        """Return why the tree does not exist, such as ``does not exist``; empty if it exists."""
        return "" if self.names("") else NOT_THERE

    def files(self, folder: str) -> list[str]:
        """Return the names of the files directly in a folder, sorted; none if there is no folder. ``""`` is the tree
        itself.
        """
        return [name for name in self.names(folder) if not name.endswith("/")]

    def folders(self, folder: str) -> list[str]:
        """Return the names of a folder's direct subfolders, sorted."""
        return [name[:-1] for name in self.names(folder) if name.endswith("/")]

    def __str__(self) -> str:
        return self.where("")

    def where(self, path: str) -> str:
        """Return a file's or folder's full name, for messages."""
        return f"{self.url}/{path}" if path else self.url

    def has(self, path: str) -> bool:
        """Whether the file exists."""
        try:
            self.stamp(path)
        except FileNotFoundError:
            return False
        return True


class LocalTree(Tree):
    """A local directory, which may be missing.

    ``lasting``: sync each file to disk before it gets its final name. False is meant for scratch space, whose files may
    be lost in a power failure.
    ``private``: give only their owner access to the files and folders that this object creates. Otherwise they get the
    modes of the process's umask.
    """

    checksums = True

    def __init__(self, root: Path, *, lasting: bool = True, private: bool = True) -> None:
        self.root = root
        self._lasting = lasting
        self._opener = opener if private else None
        self._folder_mode = FOLDER if private else _EVERYBODY
        self._root = str(root)
        self.url = root.absolute().as_uri()
        self.location = f"file:{root.absolute()}"
        self.spark_path = self._root

    def absence(self) -> str:
        try:
            found = os.stat(self._root)
        except (FileNotFoundError, NotADirectoryError):
            # A dangling link blocks the name; a directory that was created in the meantime does not.
            return "is not a directory" if os.path.islink(self._root) else NOT_THERE
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return "has too long a name"
            raise
        return "" if stat.S_ISDIR(found.st_mode) else "is not a directory"

    def must_take_files(self) -> None:
        """Check that the directory accepts files; create it if it is missing, and leave it there."""
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

    def open(self, path: str) -> IO[bytes]:
        return open(self._path(path), "rb")

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
        """Write the file under a temporary name, then link it to its final name. The file system lets only one writer
        create that link.
        """
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
            return open(draft, "xb", opener=self._opener)
        except (FileNotFoundError, NotADirectoryError):
            # Most files are created in existing folders.
            make_folders(folder, lasting=self._lasting, mode=self._folder_mode)
            return open(draft, "xb", opener=self._opener)

    def delete(self, paths: Iterable[str]) -> dict[str, str]:
        """Delete files without following links to files or folders."""
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
            for _, folders, _, folder_fd in os.fwalk(self._root, topdown=False):
                for name in folders:
                    with suppress(OSError):
                        os.rmdir(name, dir_fd=folder_fd)
        with suppress(OSError):
            os.rmdir(self._root)

    def _require(self, path: str, file: IO[bytes], expected: Stamp) -> None:
        if not _stamp(os.fstat(file.fileno())).is_same_file(expected):
            raise CheckpointChanged(f"{self.root / path} changed while it was being read")

    def _path(self, path: str) -> str:
        # Text, because joining Path objects took half of the time of reading a large directory.
        return f"{self._root}/{check_inside(path)}"


@contextmanager
def open_folder(root: str | Path, below: Iterable[str] = ()) -> Iterator[int]:
    """Yield a descriptor of the folder that is reached from ``root`` through the folders ``below``.

    Raises OSError if ``root`` or one of these folders is a link.
    """
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
