"""Which files wait in the directory of a file source: those that are there and not in its log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from streamkeeper.checkpoints.entries import read_listing
from streamkeeper.checkpoints.file_sources import FileSource
from streamkeeper.errors import CheckpointDamaged

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

    def look(self, source: FileSource) -> Unread | None:
        """What waits beyond the source's offset; raises CheckpointDamaged when its log lacks an entry."""
        if self._directory is None or not self._follow(source):
            return None
        there = {}
        for path, written_at in _files(str(self._directory)):
            there[path] = written_at
            if len(there) > _MOST_FILES:
                return None
        self._newest = max((at for path, at in there.items() if path in self._read), default=self._newest)
        waiting = [at for path, at in there.items() if path not in self._read and at > self._newest - _MAX_AGE_S]
        return Unread(files=len(waiting), oldest=min(waiting, default=None))

    def _follow(self, source: FileSource) -> bool:
        """Take in what the log has got since; False when that is too much."""
        for path in _needed(source, self._up_to):
            if path.stat().st_size > _MOST_LOG_BYTES or len(self._read) > _MOST_FILES * 10:
                return False
            found = read_listing(path).files
            self._read |= {_path_of(url) for entry, url in found if self._up_to < entry <= source.end}
        self._up_to = max(self._up_to, source.end)
        return True


def _needed(source: FileSource, up_to: int) -> list[Path]:
    """The files of the log that hold the entries after ``up_to``."""
    wanted = range(up_to + 1, source.end + 1)
    plain = {number: path for number, path in source.entries.items() if path.suffix != ".compact"}
    missing = next((each for each in reversed(wanted) if each not in plain), None)
    if missing is None:
        return [plain[each] for each in wanted]
    holder = min((number for number in source.entries if number >= missing and number not in plain), default=None)
    if holder is None:
        raise CheckpointDamaged(f"the log of source {source.name} lacks entry {missing}")
    return [source.entries[holder], *(plain[each] for each in range(missing + 1, source.end + 1))]


def _path_of(url: str) -> str:
    return unquote(urlsplit(url).path)


def _files(directory: str) -> Iterator[tuple[str, float]]:
    """As Spark lists them: the directory's own and those of its partitions, but for hidden ones."""
    try:
        entries = os.scandir(directory)
    except FileNotFoundError:
        return
    with entries:
        for each in entries:
            if each.name.startswith((".", "_")) and "=" not in each.name:
                continue
            try:
                if not each.is_dir():
                    yield each.path, each.stat().st_mtime
                elif "=" in each.name:
                    yield from _files(each.path)
            except FileNotFoundError:
                continue
