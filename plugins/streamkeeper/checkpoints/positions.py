"""Reads how far a checkpoint has read its sources, as values that can be compared with another checkpoint's."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from typing import TypeVar
from urllib.parse import unquote

import msgspec

from streamkeeper.checkpoints.facts import batch_of
from streamkeeper.checkpoints.file_sources import FileSource, file_sources, logged_files
from streamkeeper.checkpoints.layout import last_committed, read_offsets
from streamkeeper.checkpoints.log_codec import SEEN_BEFORE
from streamkeeper.checkpoints.source_starts import read_start
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged
from streamkeeper.sources.contract import NO_OFFSET, SourcePosition
from streamkeeper.sources.files import ReadFiles, log_offset
from streamkeeper.sources.known_sources import position_key, position_of

_ATTEMPTS = 5
_BEFORE_ANY = -1
_NOT_UTF8 = "surrogateescape"

T = TypeVar("T")


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """The offset of every source after a batch, in the plan's order. ``sources`` is empty if there is no batch.

    ``named``: whether the keys of ``sources`` are the sources' names. If not, the keys are the sources' numbers in the
    plan.
    """

    batch: int | None = None
    named: bool = False
    sources: dict[str, SourcePosition] = {}


def position(tree: Tree, batch: int | None = None) -> Position:
    """Return the position after a planned batch.

    ``batch``: None for the last committed batch. If no batch is committed, the position is then empty.

    The query may keep running, so several attempts are made, as in ``until_unchanged``. Raises NotFound for an unknown
    batch. Raises CheckpointDamaged or CheckpointChanged when no attempt succeeds.
    """

    def look() -> Position:
        seen = tree.fresh()
        number = last_committed(seen) if batch is None else batch_of(seen, batch)
        return Position() if number is None else PositionHistory(seen, [number]).position(number)

    return until_unchanged(look)


def until_unchanged(look: Callable[[], T]) -> T:
    """Return the result of ``look``, which reads a checkpoint; retry if the query removes files that are being read.

    If two successive attempts report the same damage, it is raised, because the running query did not cause it. Raises
    CheckpointDamaged or CheckpointChanged when no attempt succeeds.
    """
    failure: CheckpointChanged | CheckpointDamaged | None = None
    for _ in range(_ATTEMPTS):
        try:
            return look()
        except (CheckpointChanged, CheckpointDamaged) as error:
            if isinstance(error, CheckpointDamaged) and str(error) == str(failure):
                raise
            failure = error
    assert failure is not None
    raise failure


class PositionHistory:
    """The positions after some batches of one checkpoint; the log of each source is read once."""

    def __init__(self, tree: Tree, batches: Iterable[int]) -> None:
        """Read the plans of ``batches`` and the logs of the file sources. Raises CheckpointDamaged if one cannot be
        read, CheckpointChanged if an entry was removed during the read.
        """
        self._plans = {batch: read_offsets(tree, batch) for batch in batches}
        newest = self._plans[max(self._plans)]
        self._logs = {source.name: _Log(tree, source) for source in file_sources(tree, newest, None)}
        others = [name for name in newest.ends if name not in self._logs]
        self._starts = {name: read_start(tree, name) for name in others}
        self.named = newest.named

    def position(self, batch: int) -> Position:
        """Return the position after ``batch``, which must be one of the batches given to the constructor."""
        plan = self._plans[batch]
        sources = {name: self._source(name, end) for name, end in plan.ends.items()}
        return Position(batch=batch, named=plan.named, sources=sources)

    def position_of(self, ends: Mapping[str, str]) -> Position:
        """Return the position whose end offsets are ``ends``, as Spark wrote them. The plan that contained these
        offsets may be missing.
        """
        return Position(named=self.named, sources={name: self._source(name, end) for name, end in ends.items()})

    def key(self, batch: int, *, by_name: bool) -> tuple[object, ...]:
        """Return a key of the position after a batch. Equal positions have equal keys, and different positions almost
        always have different keys. Keys are cheap to compute, so they can be computed for many batches.
        """
        plan = self._plans[batch]
        keys = [(name, self._source_key(name, end)) for name, end in plan.ends.items()]
        return tuple(sorted(keys)) if by_name else tuple(source_key for _, source_key in keys)

    def _source(self, name: str, end: str) -> SourcePosition:
        offset = log_offset(end)
        if offset is not None and name in self._logs:
            return ReadFiles(self._logs[name].files(offset))
        return position_of(end, self._starts.get(name))

    def _source_key(self, name: str, end: str) -> str:
        offset = log_offset(end)
        if offset is not None and name in self._logs:
            return self._logs[name].key(offset)
        return position_key(end)


class _Log:
    """The log of one file source, from which the files in its entries up to any given entry can be determined."""

    def __init__(self, tree: Tree, source: FileSource) -> None:
        self._files = logged_files(tree, source, source.end)
        self._end = source.end
        self._entries: list[int] = []
        self._sums: list[int] | None = None

    def files(self, end: int) -> frozenset[str]:
        files = self._files
        if end < self._end:
            files = [file for file in files if file.batch_id <= end or file.batch_id == SEEN_BEFORE]
        return frozenset(map(local_path, {file.path for file in files}))

    def key(self, end: int) -> str:
        if self._sums is None:
            self._sums = [0, *accumulate(map(_digest, self._in_order()))]
        count = bisect_right(self._entries, end)
        return f"{count} files {self._sums[count] % 2**128:x}" if count else NO_OFFSET

    def _in_order(self) -> list[str]:
        """Return every path once, ordered by the first entry that contains it."""
        first: dict[str, int] = {}
        for file in self._files:
            entry = _BEFORE_ANY if file.batch_id == SEEN_BEFORE else file.batch_id
            path = local_path(file.path)
            first[path] = min(entry, first.get(path, entry))
        paths = sorted(first, key=first.__getitem__)
        self._entries = [first[path] for path in paths]
        return paths


def local_path(url: str) -> str:
    """Decode the percent escapes in a logged URL. For a local file, return its plain path."""
    folder, separator, name = url.rpartition("/")
    return _folder(folder) + separator + (unquote(name, errors=_NOT_UTF8) if "%" in name else name)


@lru_cache(maxsize=4096)
def _folder(url: str) -> str:
    path = unquote(url, errors=_NOT_UTF8)
    if not path.startswith("file:"):
        return path
    below = path.removeprefix("file:").lstrip("/")
    return f"/{below}" if below else ""


def _digest(path: str) -> int:
    return int.from_bytes(blake2b(path.encode(errors=_NOT_UTF8), digest_size=16).digest(), "big")
