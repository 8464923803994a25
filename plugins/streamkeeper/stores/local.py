"""A store in a local directory: one file per key, each written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streamkeeper.errors import InvalidInput, KeyExists, KeyMissing, StoreUnavailable
from streamkeeper.stores.contract import Store
from streamkeeper.stores.keys import check_key, check_prefix
from streamkeeper.system import clock
from streamkeeper.system.private_files import FOLDER, make_folders, opener, sync_folder

_DRAFT = re.compile(r"\.[0-9a-f]{32}")
_HINTS = {
    errno.ENOSPC: "free some space, because the disk is full",
    errno.EDQUOT: "free some space, because the disk quota is used up",
    errno.EACCES: "check the directory's owner and permissions",
    errno.EPERM: "check the directory's owner and permissions",
    errno.EROFS: "mount the file system with write access",
}


class LocalStore(Store):
    """The directory ``root``, which is created if it is missing; raises StoreUnavailable when that fails.

    The store keeps no state in memory, so threads may share it. If the directory disappears later, the store is
    unavailable instead of empty. The directory is never recreated, because other processes would not see values in a
    new directory.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = os.path.abspath(root)
        self.url = Path(self._root).as_uri()
        with self._told("open", ""):
            make_folders(self._root)

    def read(self, key: str) -> bytes:
        return self._read(key, 0, None)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self._read(key, start, length)

    def _read(self, key: str, start: int, length: int | None) -> bytes:
        """Read at most ``length`` bytes. Callers may pass a length from a record, so the file's real size limits it."""
        path = self._path(key)
        with self._told("read", key):
            try:
                with open(path, "rb") as file:
                    left = max(os.fstat(file.fileno()).st_size - start, 0)
                    wanted = left if length is None else min(length, left)
                    self.check_readable(key, wanted)
                    file.seek(start)
                    return file.read(wanted)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                self._require_root()
                raise KeyMissing(key) from None

    def create(self, key: str, value: bytes) -> None:
        """Write the complete value to a temporary file, and hard-link that file to the name of the key. The file system
        lets exactly one writer create this link.
        """
        path = self._path(key)
        self.check_writable(key, value)
        with self._told("create", key), self._finished_file(path, value) as finished:
            try:
                os.link(finished, path)
            except FileExistsError:
                raise KeyExists(key) from None
            os.unlink(finished)
            sync_folder(os.path.dirname(path))

    def replace(self, key: str, value: bytes) -> None:
        """Rename the new file over the old one and sync the folder, which takes about 2 ms.

        Without the sync, readers could find an older value after a power failure.
        """
        path = self._path(key)
        self.check_writable(key, value)
        with self._told("replace", key), self._finished_file(path, value) as finished:
            os.rename(finished, path)
            sync_folder(os.path.dirname(path))

    def list(self, prefix: str, *, after: str = "") -> Iterator[str]:
        """List every key that existed before the call; a key that is created during the call may be missing."""
        check_prefix(prefix)
        folder = os.path.join(self._root, prefix)
        with self._told("list", prefix):
            if not os.path.isdir(folder):
                self._require_root()
                return
            yield from _keys_below(folder, prefix, after)

    def folders(self, prefix: str) -> Iterator[str]:
        """List one directory; an empty folder counts too."""
        check_prefix(prefix)
        with self._told("list", prefix):
            try:
                with os.scandir(os.path.join(self._root, prefix)) as entries:
                    names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
            except (FileNotFoundError, NotADirectoryError):
                self._require_root()
                return
        yield from names

    def delete(self, key: str) -> None:
        path = self._path(key)
        with self._told("delete", key):
            try:
                os.unlink(path)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                self._require_root()

    def clear_unfinished(self, prefix: str, *, older_than_s: float) -> int:
        """Remove drafts of killed writers. A draft's file name is a dot and 32 hexadecimal digits."""
        check_prefix(prefix)
        cleared = 0
        with self._told("clear", prefix):
            for folder, _, names in os.walk(os.path.join(self._root, prefix)):
                for name in filter(_DRAFT.fullmatch, names):
                    path = os.path.join(folder, name)
                    with suppress(FileNotFoundError):
                        if clock.unix() - os.stat(path).st_mtime >= older_than_s:
                            os.unlink(path)
                            cleared += 1
        return cleared

    def _path(self, key: str) -> str:
        return os.path.join(self._root, check_key(key))

    def _require_root(self) -> None:
        if not os.path.isdir(self._root):
            raise FileNotFoundError(errno.ENOENT, "the store's directory is missing", self._root)

    @contextmanager
    def _finished_file(self, path: str, value: bytes) -> Iterator[str]:
        """Yield an unlisted file next to ``path`` whose content ``value`` is synced to disk. The file is removed
        afterwards if it was not used.
        """
        folder = os.path.dirname(path)
        made = self._make_folder(folder)
        unlisted = os.path.join(folder, f".{uuid.uuid4().hex}")
        try:
            try:
                with open(unlisted, "xb", opener=opener) as file:
                    file.write(value)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError:
                _take_away(unlisted, made)
                raise
            yield unlisted
        finally:
            with suppress(OSError):
                os.unlink(unlisted)

    def _make_folder(self, folder: str) -> tuple[str, ...]:
        """Create ``folder`` and its parents; return those that were created, the innermost last."""
        if os.path.isdir(folder):
            return ()
        if folder == self._root:
            self._require_root()
        above = os.path.dirname(folder)
        made = self._make_folder(above)
        with suppress(FileExistsError):
            os.mkdir(folder, FOLDER)
            made = (*made, folder)
            sync_folder(above)
        return made

    @contextmanager
    def _told(self, operation: str, key: str) -> Iterator[None]:
        """Translate an OSError in the body of the ``with`` statement into an error of the store contract, in one line
        with the operation and the path or key.
        """
        try:
            yield
        except (NotADirectoryError, IsADirectoryError) as error:
            raise InvalidInput(
                f"cannot {operation} {key} in {self.url}: the key or one of its parent folders would have to be both a"
                " file and a folder"
            ) from error
        except OSError as error:
            path = os.path.join(self._root, key)
            raise StoreUnavailable(
                f"store {self.url}: cannot {operation} {path}: {error.strerror or error}",
                hint=_HINTS.get(error.errno or 0, ""),
            ) from error


def _keys_below(folder: str, prefix: str, after: str) -> Iterator[str]:
    """Yield keys in order. A folder sorts by its name with ``/``, as its keys compare with those of its neighbours."""
    names = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            name = f"{entry.name}/" if entry.is_dir() else entry.name
            key = prefix + name
            if key > after or (name.endswith("/") and after.startswith(key)):
                names.append(name)
    for name in sorted(names):
        if name.endswith("/"):
            with suppress(FileNotFoundError):
                yield from _keys_below(os.path.join(folder, name), prefix + name, after)
        else:
            yield prefix + name


def _take_away(file: str, folders: tuple[str, ...]) -> None:
    """Remove a file that did not fit on the disk, and the folders that were made for it. An empty folder would
    otherwise be listed as a job.
    """
    with suppress(OSError):
        os.unlink(file)
    for folder in reversed(folders):
        with suppress(OSError):
            os.rmdir(folder)
