"""Finds unread files in the directory of a file source: files that Spark will read, and files that it never reads.

Spark never reads a file whose modification time is more than ``maxFileAge`` (7 days by default) before that of the
newest file it has read. Copies that keep times (``rsync -a``, ``cp -p``, ``tar x``, ``distcp -p``) can be that old when
they arrive. Spark also never reads a file whose name is not UTF-8, because Java cannot represent it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

import msgspec

from streamkeeper.checkpoints.file_sources import FileSource, read_source_entry
from streamkeeper.checkpoints.log_codec import SEEN_BEFORE, log_names
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.positions import local_path
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.locations import scheme_of
from streamkeeper.sources.files import CHOOSING, log_offset, max_file_age_ms

_DESCRIBED = re.compile(r"FileStreamSource\[(.*)\]")
_PATTERN = re.compile(r"[*?{\[\]\\]")
"""Wildcards. A place that contains one is a pattern instead of a directory, and is not searched."""
_MOST_FILES = 100_000
_MOST_REMOTE_FILES = 10_000
"""The greatest number of files in a directory on S3 or in HDFS that is searched. A listing of a bucket takes one
request per thousand files.
"""
_MOST_LOG_BYTES = 32 << 20


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """The unread files of a source."""

    files: int
    """How many files have still to be read."""
    oldest: float | None
    """When the oldest of the files that have still to be read was written, in seconds since 1970; None if there is no
    such file.
    """
    too_old: int = 0
    """How many files Spark never reads, because of their age or their name."""
    example: str = ""
    """One of the files that Spark never reads, with ``U+FFFD`` for bytes that are not UTF-8."""


class UnreadFiles:
    """Finds the unread files of one source repeatedly. Each entry of the source's log is read only once, and the names
    are kept. Not thread-safe.

    ``look`` and ``unread`` return None in these cases, in which a search would be expensive or its result uncertain:
    - The source's place is not a directory on a disk, on S3 or in HDFS.
    - The source's options make Spark read only some of the directory's files.
    - The directory has more than 100,000 files (10,000 on S3 and in HDFS).
    - The log has more than 32 MB.
    """

    def __init__(self, place: str, options: Mapping[str, str], *, unseen: Mapping[str, str] | None = None) -> None:
        """``place``: Spark's description of the source, or its path.
        ``options``: the source's options, including its limits, with names in lower case.
        ``unseen``: scheme -> why this process cannot check files there.
        """
        described = _DESCRIBED.fullmatch(place)
        self.directory = _directory(described[1] if described else place)
        scheme = scheme_of(self.directory) or "file"
        self.max_age_ms = max_file_age_ms(options)
        if CHOOSING & options.keys() or scheme not in ("file", "s3a", "s3", "hdfs") or scheme in (unseen or {}):
            self.directory = ""
        self._recursive = options.get("recursivefilelookup", "").lower() == "true"
        self._read: set[str] = set()
        self._newest_ms = 0
        self._up_to = -1

    def look(self, tree: Tree, source: FileSource) -> Unread | None:
        """Count the files that no batch up to the source's offset has read. The result can be None, as the class
        describes.

        Raises CheckpointDamaged if the log lacks an entry, CheckpointChanged if an entry was removed during the call,
        and StoreUnavailable if the storage does not answer.
        """
        there = self.unread(tree, source)
        if there is None:
            return None
        never = self.too_old(there) | set(filter(_is_unnameable, there))
        waiting = [stamp for path, stamp in there.items() if path not in never]
        return Unread(
            files=len(waiting),
            oldest=min(waiting) / 1000 if waiting else None,
            too_old=len(never),
            example=os.fsencode(min(never, default="")).decode(errors="replace"),
        )

    def unread(self, tree: Tree, source: FileSource) -> dict[str, int] | None:
        """Return the modification time in ms of every existing, unread file, by path; None in the cases that the class
        lists.

        Raises the errors of ``look``.
        """
        if not self.directory or not self._follow(tree, source):
            return None
        there: dict[str, int] = {}
        most = _MOST_REMOTE_FILES if scheme_of(self.directory) else _MOST_FILES
        for count, (path, written_ms) in enumerate(self._files(), 1):
            if count > most:
                return None
            if path and path not in self._read:
                there[path] = written_ms
        return there

    def has_read(self, path: str) -> bool:
        """Whether Spark has read a file, according to the log entries that this object has read so far."""
        return path in self._read

    def too_old(self, unread: Mapping[str, int]) -> set[str]:
        """Return the given unread files that Spark will never read because they are too old."""
        return too_old(unread, self._newest_ms, self.max_age_ms)

    def _files(self) -> Iterator[tuple[str, int]]:
        """Yield path and modification time in ms of each file; an empty path for one that Spark does not list."""
        if not scheme_of(self.directory):
            yield from _files(self.directory, recursive=self._recursive)
            return
        for path, stamp in tree_at(self.directory).stamps():
            *folders, name = path.split("/")
            listed = all(self._recursive or "=" in folder for folder in folders)
            read = listed and not any(map(_is_hidden, (*folders, name)))
            yield f"{self.directory}/{path}" if read else "", stamp.modified // 1_000_000

    def _follow(self, tree: Tree, source: FileSource) -> bool:
        """Read the new entries of the log; return False if they are too large."""
        first, where = self._up_to + 1, tree.where(source.folder)
        for name in source.entries.holding(source.end, first=first, where=where):
            path = f"{source.folder}/{name}"
            if tree.stamp(path).size > _MOST_LOG_BYTES or len(self._read) > _MOST_FILES * 10:
                return False
            for file in read_source_entry(tree, path):
                if first <= file.batch_id <= source.end or file.batch_id == SEEN_BEFORE:
                    self._read.add(local_path(file.path))
                    self._newest_ms = max(self._newest_ms, file.timestamp)
        self._up_to = max(self._up_to, source.end)
        return True


def too_old(unread: Mapping[str, int], newest_ms: int, max_age_ms: int | None) -> set[str]:
    """Return the unread files that are too old for Spark to read.

    ``newest_ms``: the latest modification time of a file that Spark has read.
    """
    if max_age_ms is None or not newest_ms:
        return set()
    return {path for path, written_ms in unread.items() if written_ms < newest_ms - max_age_ms}


def newest_read_ms(tree: Tree, folder: str, offset: str) -> int:
    """Return the latest modification time among the files that a source's log lists up to ``offset``; 0 if it lists
    none.

    Raises CheckpointDamaged if the log is damaged, CheckpointChanged if an entry was removed during the call.
    """
    entries, decoded = log_names(tree.files(folder)), log_offset(offset)
    end = -1 if decoded is None else decoded
    found = [
        file.timestamp
        for name in (entries.holding(end, where=tree.where(folder)) if end >= 0 else ())
        for file in read_source_entry(tree, f"{folder}/{name}")
        if file.batch_id <= end or file.batch_id == SEEN_BEFORE
    ]
    return max(found, default=0)


def _directory(place: str) -> str:
    """Return a directory's path, or its URL on S3 or in HDFS; empty for anything else."""
    if place.startswith("file:"):
        place = "/" + place.removeprefix("file:").lstrip("/")
    known = place.startswith("/") or scheme_of(place) not in ("", "file")
    return place.rstrip("/") if known and not _PATTERN.search(place) else ""


def _files(directory: str, *, recursive: bool) -> Iterator[tuple[str, int]]:
    """Yield the files that Spark lists: those in the directory itself and in its partitions, without hidden files."""
    try:
        entries = os.scandir(directory)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            if _is_hidden(entry.name):
                continue
            try:
                if not entry.is_dir():
                    yield entry.path, entry.stat().st_mtime_ns // 1_000_000
                elif recursive or "=" in entry.name:
                    yield from _files(entry.path, recursive=recursive)
            except FileNotFoundError:
                continue


def _is_unnameable(path: str) -> bool:
    """Whether a path has bytes that are not UTF-8, which Python keeps as lone surrogates."""
    return any("\udc80" <= letter <= "\udcff" for letter in path)


def _is_hidden(name: str) -> bool:
    """Whether Spark ignores a file, as it does with unfinished files and with its own files."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
