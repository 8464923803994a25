"""Whether one checkpoint has read everything that another one has, how far it is, and where both have read the same.

Without Spark, from the files alone; both queries may go on meanwhile. Sources are matched by their names, or by their
positions where they have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from streamkeeper.checkpoints.input_files import FileLook, look_for_files
from streamkeeper.checkpoints.layout import last_committed, numbered
from streamkeeper.checkpoints.positions import (
    History,
    NothingRead,
    Partitions,
    Position,
    ReadFiles,
    ReadOther,
    ReadTopics,
    SourcePosition,
    position,
    until_unchanged,
)
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import Unsupported

__all__ = ["Position", "Reach", "SourceReach", "compare", "equal_batches", "missing_files", "missing_since", "position"]

_LOOK_BACK = 200


class SourceReach(msgspec.Struct, frozen=True, kw_only=True):
    """One source: how much of what the old has read the new lacks, how much more it has, and how much the old has.

    In ``unit``: files, or records of Kafka, counted by offsets from where the new began. ``told``: one line.
    """

    source: str
    unit: str
    missing: int
    ahead: int
    total: int
    told: str


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How far the new is compared with the old. ``comparable`` is False where nothing can be said, and ``why``."""

    comparable: bool = True
    why: str = ""
    holds: bool = False
    equal: bool = False
    sources: tuple[SourceReach, ...] = ()

    @property
    def sentence(self) -> str:
        """Every source in one line, or why there is none."""
        return "; ".join(source.told for source in self.sources) if self.comparable else self.why

    @property
    def lacking(self) -> str:
        """What the new lacks, such as ``280 files and 1,200 records``; ``nothing`` where it holds everything."""
        counts: dict[str, int] = {}
        for source in self.sources:
            counts[source.unit] = counts.get(source.unit, 0) + source.missing
        return " and ".join(_count(number, unit) for unit, number in counts.items() if number) or "nothing"


def compare(old: Position, new: Position) -> Reach:
    """Whether ``new`` has read everything that ``old`` has: every file, and every partition as far.

    A position without a batch lacks everything, and is held by every other one.
    """
    if why := _differ(old, new):
        return Reach(comparable=False, why=why)
    sources = []
    for name, before, after in _pairs(old, new):
        found = _source(name, before, after)
        if found is None:
            why = f"source {name} is {_kind(before)} in one and {_kind(after)} in the other: they cannot be compared"
            return Reach(comparable=False, why=why)
        sources.append(found)
    return Reach(
        holds=all(source.missing == 0 for source in sources),
        equal=all(_same(before, after) for _, before, after in _pairs(old, new)),
        sources=tuple(sources),
    )


def equal_batches(old: Tree, new: Tree) -> tuple[int, int] | None:
    """The newest committed batches of both with equal positions, of the last 200 that are still there; else None.

    Raises CheckpointDamaged, CheckpointChanged.
    """

    def look(tree: Tree) -> tuple[History, list[int]] | None:
        seen = tree.fresh()
        batches = _committed(seen)
        return (History(seen, batches), batches) if batches else None

    before, after = until_unchanged(lambda: look(old)), until_unchanged(lambda: look(new))
    if before is None or after is None:
        return None
    (was, old_batches), (now, new_batches) = before, after
    by_name = was.named and now.named
    there: dict[tuple[object, ...], int] = {}
    for batch in new_batches:
        there.setdefault(now.key(batch, by_name=by_name), batch)
    for batch in old_batches:
        match = there.get(was.key(batch, by_name=by_name))
        if match is not None and compare(was.position(batch), now.position(match)).equal:
            return batch, match
    return None


def missing_files(tree: Tree, *, unseen: Mapping[str, str] | None = None) -> tuple[list[str], int]:
    """The files that were read up to the last commit and are gone, sorted, and how many were read.

    A rebuild from the beginning would lack them. ``unseen``: as in ``look_for_files``. Raises Unsupported where a file
    cannot be looked for, CheckpointDamaged, CheckpointChanged.
    """
    found: set[str] = set()
    for source in position(tree).sources.values():
        if isinstance(source, ReadFiles):
            found |= source.files
    look = look_for_files(sorted(found), unseen=unseen)
    if look.unchecked:
        raise Unsupported(look.unchecked_clause("files that were read"))
    return list(look.gone), len(found)


def missing_since(now: Position, then: Position, *, unseen: Mapping[str, str] | None = None) -> FileLook:
    """Which of the files that were read between two positions of one query are gone: reading on from ``then`` would
    not miss them. ``unseen``: as in ``look_for_files``."""
    since: set[str] = set()
    for name, source in now.sources.items():
        since |= _files_of(source) - _files_of(then.sources.get(name, NothingRead()))
    return look_for_files(sorted(since), unseen=unseen)


def _committed(tree: Tree) -> list[int]:
    """The newest committed batches whose plans are there, newest first."""
    newest = last_committed(tree)
    if newest is None:
        return []
    there = set(numbered(tree, "commits")) & set(numbered(tree, "offsets"))
    return sorted((batch for batch in there if batch > newest - _LOOK_BACK), reverse=True)


def _differ(old: Position, new: Position) -> str:
    """Why the sources of two positions cannot be matched; empty where they can."""
    if not old.sources or not new.sources:
        return ""
    if old.named and new.named:
        if old.sources.keys() == new.sources.keys():
            return ""
        return f"one reads {', '.join(sorted(old.sources))}, the other {', '.join(sorted(new.sources))}"
    if len(old.sources) != len(new.sources):
        return f"one has {_count(len(old.sources), 'sources')}, the other {len(new.sources)}"
    if old.named != new.named and len(old.sources) > 1:
        return "one names its sources, the other numbers them"
    return ""


def _pairs(old: Position, new: Position) -> Iterator[tuple[str, SourcePosition, SourcePosition]]:
    nothing = NothingRead()
    if not old.sources or not new.sources or (old.named and new.named):
        for name in old.sources or new.sources:
            yield name, old.sources.get(name, nothing), new.sources.get(name, nothing)
        return
    for (name, before), after in zip(old.sources.items(), new.sources.values(), strict=True):
        yield name, before, after


def _source(name: str, old: SourcePosition, new: SourcePosition) -> SourceReach | None:
    """None where the two cannot be compared."""
    match old, new:
        case ReadFiles(), ReadFiles() | NothingRead():
            return _files(name, old.files, _files_of(new))
        case NothingRead(), ReadFiles() | NothingRead():
            return _files(name, frozenset(), _files_of(new))
        case ReadTopics(), ReadTopics() | NothingRead():
            return _topics(name, old, new if isinstance(new, ReadTopics) else ReadTopics({}))
        case NothingRead(), ReadTopics():
            return _topics(name, ReadTopics({}), new)
        case ReadOther(), ReadOther() if old.offset == new.offset:
            return SourceReach(source=name, unit="offsets", missing=0, ahead=0, total=1, told=f"source {name}: equal")
    return None


def _files(name: str, old: frozenset[str], new: frozenset[str]) -> SourceReach:
    missing = len(old - new)
    told = f"source {name}: {len(old) - missing:,} of {_count(len(old), 'files')}"
    return SourceReach(source=name, unit="files", missing=missing, ahead=len(new - old), total=len(old), told=told)


def _topics(name: str, old: ReadTopics, new: ReadTopics) -> SourceReach:
    missing = ahead = total = 0
    told = []
    for topic, partitions in old.offsets.items():
        to_go = reached = 0
        for partition, end in partitions.items():
            began = _at(new.starts, topic, partition, _at(old.starts, topic, partition, 0))
            at = _at(new.offsets, topic, partition, min(began, end))
            to_go += max(0, end - at)
            ahead += max(0, at - end)
            total += max(0, end - min(began, at))
            reached += at >= end
        missing += to_go
        rest = f", {_count(to_go, 'records')} to go" if to_go else ""
        told.append(f"topic {topic}: {reached} of {_count(len(partitions), 'partitions')}{rest}")
    for topic, partitions in new.offsets.items():
        fresh = partitions.keys() - old.offsets.get(topic, {}).keys()
        ahead += sum(max(0, partitions[partition] - _at(new.starts, topic, partition, 0)) for partition in fresh)
    line = "; ".join(told) or f"source {name}: no offsets were read"
    return SourceReach(source=name, unit="records", missing=missing, ahead=ahead, total=total, told=line)


def _same(old: SourcePosition, new: SourcePosition) -> bool:
    """Where a Kafka source began does not count, and reading no file is like having no offset."""
    if isinstance(old, ReadTopics) and isinstance(new, ReadTopics):
        return old.offsets == new.offsets
    return old == new or (_is_nothing(old) and _is_nothing(new))


def _is_nothing(source: SourcePosition) -> bool:
    return isinstance(source, NothingRead) or (isinstance(source, ReadFiles) and not source.files)


def _files_of(source: SourcePosition) -> frozenset[str]:
    return source.files if isinstance(source, ReadFiles) else frozenset()


def _at(offsets: Partitions, topic: str, partition: str, otherwise: int) -> int:
    return offsets.get(topic, {}).get(partition, otherwise)


def _kind(source: SourcePosition) -> str:
    match source:
        case ReadFiles():
            return "files"
        case ReadTopics():
            return "Kafka"
        case ReadOther():
            return f"at {source.offset}"
        case NothingRead():
            return "not read yet"


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit.removesuffix('s') if number == 1 else unit}"
