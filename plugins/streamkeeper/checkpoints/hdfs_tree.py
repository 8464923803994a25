"""A checkpoint in HDFS, as Spark writes it. It is accessed over WebHDFS; Hadoop's configuration names the address."""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice

from streamkeeper.checkpoints.trees import NOT_THERE, Seen, Tree, check_inside
from streamkeeper.checkpoints.webhdfs import FileStatus, Refused, WebHdfs
from streamkeeper.errors import CheckpointChanged, InvalidInput, StoreUnavailable
from streamkeeper.model.records.snapshot import Stamp
from streamkeeper.system.hadoop_conf import hadoop_user, webhdfs_url

_URL = re.compile(r"(hdfs://[^/]+)((?:/[^/]+)+)/*")
_MILLISECOND_NS = 1_000_000
_AT_ONCE = 8
_DELETED_AT_ONCE = 100
_BUFFERED_BYTES = 8 * 1024 * 1024


class HdfsTree(Tree):
    """The tree ``hdfs://namenode:port/prefix``; the NameNode's WebHDFS address is found through ``HADOOP_CONF_DIR``.

    Listing a folder and reading a file's ``Stamp`` take one request each. Results are never cached. Threads may share
    the tree. Raises StoreUnavailable if the NameNode or a DataNode does not answer, or refuses a request.
    """

    def __init__(self, url: str, hdfs: WebHdfs | None = None) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            raise InvalidInput(f"{url}: the URL lacks a NameNode or a path", hint="write hdfs://namenode:port/path")
        root, self._root = found[1], found[2]
        self.url = self.location = self.spark_path = root + self._root
        if hdfs is None:
            address = webhdfs_url(root.removeprefix("hdfs://"), os.environ)
            hdfs = WebHdfs(root, address, hadoop_user(os.environ))
        self._hdfs = hdfs

    def absence(self) -> str:
        try:
            found = self._hdfs.status(self._root)
        except FileNotFoundError:
            return NOT_THERE
        return "" if found.type == "DIRECTORY" else "is not a directory"

    def must_take_files(self) -> None:
        """Check that the directory accepts files; create it if it is missing, and leave it there."""
        self._hdfs.must_be_rpc_port()
        try:
            super().must_take_files()
        except OSError as error:
            raise InvalidInput(f"{self.url} cannot be created: {error.filename}: {error.strerror}") from error

    def names(self, folder: str) -> list[str]:
        found = self._list(folder).items()
        return sorted(f"{name}/" if status.type == "DIRECTORY" else name for name, status in found)

    def look(self) -> Seen:
        """List the whole tree with one request per folder; several requests run in parallel."""
        files: dict[str, Stamp] = {}
        odd: list[str] = []
        for _, found in self._walk():
            files |= {path: _stamp(status) for path, status in found.items() if status.type != "DIRECTORY"}
            odd += [path for path, status in found.items() if status.type == "SYMLINK"]
        return Seen(files, tuple(sorted(odd)))

    def stamps(self) -> Iterator[tuple[str, Stamp]]:
        for _, found in self._walk():
            yield from ((path, _stamp(status)) for path, status in found.items() if status.type != "DIRECTORY")

    def read(self, path: str) -> bytes:
        return self._hdfs.read(self._path(path))

    def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
        """Yield the file's content, then raise CheckpointChanged unless the file's stamp is ``expected``.

        The stamp contains the file's id. HDFS never reuses an id, so an equal stamp proves that this file was read.
        """
        try:
            yield from self._hdfs.stream(self._path(path), size)
        except StoreUnavailable:
            # A DataNode aborts the transfer of a file that is being deleted.
            self._require(path, expected)
            raise
        self._require(path, expected)

    def stamp(self, path: str) -> Stamp:
        return _stamp(self._file(path))

    def create(self, path: str, content: Iterable[bytes]) -> None:
        """Write a draft next to the file, then rename the draft. If several writers rename, the NameNode lets only one
        of them succeed.

        If the response to the rename is lost, the file may exist although its writer gets an error.
        """
        target = self._path(path)
        draft = f"{target.rpartition('/')[0]}/.{uuid.uuid4().hex}.tmp"
        parts = iter(content)
        begin = _gathered(parts)
        more = next(parts, None)
        try:
            self._hdfs.create(draft, begin if more is None else chain([begin, more], parts))
            self._hdfs.rename(draft, target)
        except BaseException:
            with suppress(OSError, StoreUnavailable):
                self._hdfs.delete(draft)
            raise

    def delete(self, paths: Iterable[str]) -> dict[str, str]:
        """Remove files with one request per file; several requests run in parallel."""
        kept: dict[str, str] = {}
        left = iter(paths)
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="delete") as pool:
            while group := list(islice(left, _DELETED_AT_ONCE)):
                kept |= {path: why for path, why in zip(group, pool.map(self._delete, group), strict=True) if why}
        return kept

    def drop_empty_folders(self) -> None:
        """Delete empty folders; the NameNode keeps a folder that is no longer empty."""
        if self.absence():
            return
        for folder in reversed([folder for folder, _ in self._walk()]):
            with suppress(Refused):
                self._hdfs.delete(self._where(folder))

    def _walk(self) -> Iterator[tuple[str, dict[str, FileStatus]]]:
        """Yield every folder, parents first, with its entries by their paths in the tree."""
        level = [""]
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="look") as pool:
            while level:
                below: list[str] = []
                for folder, names in zip(level, pool.map(self._list, level), strict=True):
                    found = {f"{folder}/{name}".lstrip("/"): status for name, status in names.items()}
                    below += [path for path, status in found.items() if status.type == "DIRECTORY"]
                    yield folder, found
                level = below

    def _list(self, folder: str) -> dict[str, FileStatus]:
        try:
            found = self._hdfs.list(self._where(folder))
        except FileNotFoundError:
            return {}
        except Refused:
            # Below a file, HDFS answers with a denied access.
            if self._is_absent(folder):
                return {}
            raise
        return {status.path_suffix: status for status in found if status.path_suffix}

    def _is_absent(self, folder: str) -> bool:
        try:
            self._hdfs.status(self._where(folder))
        except FileNotFoundError:
            return True
        return False

    def _file(self, path: str) -> FileStatus:
        found = self._hdfs.status(self._path(path))
        if found.type == "DIRECTORY":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.where(path))
        return found

    def _require(self, path: str, expected: Stamp) -> None:
        if not _stamp(self._file(path)).is_same_file(expected):
            raise CheckpointChanged(f"{self.where(path)} changed while it was being read")

    def _delete(self, path: str) -> str:
        """Delete a file. Return why it could not be deleted; empty if it was deleted or is missing."""
        try:
            self._hdfs.delete(self._path(path))
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except Refused as error:
            return error.message
        return ""

    def _path(self, path: str) -> str:
        return self._where(check_inside(path))

    def _where(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/")


def _gathered(parts: Iterator[bytes]) -> bytes:
    """Return the next part of a content. The part has at least ``_BUFFERED_BYTES``, unless fewer bytes remain.

    If reading a small content fails, no byte of it has therefore been sent.
    """
    found, size = [], 0
    for part in parts:
        found.append(part)
        size += len(part)
        if size >= _BUFFERED_BYTES:
            break
    return b"".join(found)


def _stamp(status: FileStatus) -> Stamp:
    return Stamp(
        size=status.length,
        modified=status.modification_time * _MILLISECOND_NS,
        changed=0,
        tag=str(status.file_id),
    )
