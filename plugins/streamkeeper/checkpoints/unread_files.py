"""Which files wait in the directory of a file source: those that are there and not in its log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from streamkeeper.checkpoints.file_sources import FileSource, read_source_entry
from streamkeeper.checkpoints.log_codec import SEEN_BEFORE
from streamkeeper.checkpoints.trees import Tree

_DESCRIBED = re.compile(r"FileStreamSource\[file:/*(/[^*?{\[\]]*)\]")
"""A local directory; patterns are left to Spark."""
_CHOOSING = frozenset({"pathglobfilter", "modifiedafter", "modifiedbefore", "maxfileage", "latestfirst"})
"""Options that say which files of the directory are read at all."""
_MAX_AGE_S = 7 * 24 * 3600.0
"""Spark's default ``maxFileAge``, counted from the newest file: what is older is never read."""
_MOST_FILES = 100_000
_MOST_LOG_BYTES = 32 << 20


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """``files``: how many wait; ``oldest``: when the oldest of them was written, seconds since 1970."""

    files: int
    oldest: float | None


class UnreadFiles:
    """One source's, asked now and then; reads each entry of the log once, and keeps the names. Not for several threads.

    None wherever the answer would not be cheap or not certain: no local directory, options that choose among its
    files, more than 100,000 files, a log of more than 32 MB.
    """

    def __init__(self, description: str, options: Mapping[str, str]) -> None:
        found = _DESCRIBED.fullmatch(description)
        self._directory = Path(found[1]) if found and not _CHOOSING & options.keys() else None
        self._read: set[str] = set()
        self._newest = 0.0
        self._up_to = -1

    def look(self, tree: Tree, source: FileSource) -> Unread | None:
        """What waits beyond the offset of a source of the checkpoint; raises CheckpointDamaged when its log lacks an
        entry, CheckpointChanged.
        """
        if self._directory is None or not self._follow(tree, source):
            return None
        there = {}
        for path, written_at in _files(str(self._directory)):
            there[path] = written_at
            if len(there) > _MOST_FILES:
                return None
        self._newest = max((at for path, at in there.items() if path in self._read), default=self._newest)
        waiting = [at for path, at in there.items() if path not in self._read and at > self._newest - _MAX_AGE_S]
        return Unread(files=len(waiting), oldest=min(waiting, default=None))

    def _follow(self, tree: Tree, source: FileSource) -> bool:
        """Take in what the log has gained since; False when that is too much."""
        first, where = self._up_to + 1, tree.where(source.folder)
        for name in source.entries.holding(source.end, first=first, where=where):
            path = f"{source.folder}/{name}"
            if tree.stamp(path).size > _MOST_LOG_BYTES or len(self._read) > _MOST_FILES * 10:
                return False
            found = read_source_entry(tree, path)
            self._read |= {
                _path_of(file.path)
                for file in found
                if first <= file.batch_id <= source.end or file.batch_id == SEEN_BEFORE
            }
        self._up_to = max(self._up_to, source.end)
        return True


def _path_of(url: str) -> str:
    return unquote(urlsplit(url).path)


def _files(directory: str) -> Iterator[tuple[str, float]]:
    """As Spark lists them: the directory's own and those of its partitions, but for hidden ones."""
    try:
        entries = os.scandir(directory)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            if entry.name.startswith((".", "_")) and "=" not in entry.name:
                continue
            try:
                if not entry.is_dir():
                    yield entry.path, entry.stat().st_mtime
                elif "=" in entry.name:
                    yield from _files(entry.path)
            except FileNotFoundError:
                continue
