"""Compares two checkpoints: whether the new one has read everything that the old one has, how far it is from that, and
after which batches both are equal.

Works without Spark, from the files alone; both queries may keep running. Sources are matched by name, or by position if
they have no names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from streamkeeper.checkpoints.input_files import FileLook, look_for_files
from streamkeeper.checkpoints.layout import last_committed, numbered
from streamkeeper.checkpoints.positions import (
    Position,
    PositionHistory,
    position,
    until_unchanged,
)
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import Unsupported
from streamkeeper.sources.contract import NothingRead, SourcePosition, SourceReach, count
from streamkeeper.sources.known_sources import compare_positions

__all__ = [
    "Position",
    "ReachComparison",
    "SourceReach",
    "compare",
    "equal_batches",
    "missing_files",
    "missing_since",
    "position",
]

_LOOK_BACK = 200


class ReachComparison(msgspec.Struct, frozen=True, kw_only=True):
    """How far the new checkpoint has read, compared with the old checkpoint."""

    comparable: bool = True
    """Whether the two checkpoints can be compared."""
    why: str = ""
    """Why the two checkpoints cannot be compared."""
    holds: bool = False
    """Whether the new checkpoint has read everything that the old one has read."""
    equal: bool = False
    """Whether both checkpoints have read the same input."""
    sources: tuple[SourceReach, ...] = ()
    """The comparison of each source."""

    @property
    def sentence(self) -> str:
        """The comparisons of all sources in one line, or why the checkpoints cannot be compared."""
        return "; ".join(source.text for source in self.sources) if self.comparable else self.why

    @property
    def lacking(self) -> str:
        """The input that the new checkpoint lacks, such as ``280 files and 1,200 records``, or ``nothing``."""
        counts: dict[str, int] = {}
        for source in self.sources:
            counts[source.unit] = counts.get(source.unit, 0) + source.missing
        return " and ".join(count(number, unit) for unit, number in counts.items() if number) or "nothing"


def compare(old: Position, new: Position) -> ReachComparison:
    """Compare two positions: whether ``new`` has read every file that ``old`` has read, and has read every partition at
    least to the same offset.

    If ``new`` is without a batch, it lacks everything that ``old`` has read. If ``old`` is without a batch, ``new``
    lacks nothing.
    """
    if why := _differ(old, new):
        return ReachComparison(comparable=False, why=why)
    sources = []
    for name, before, after in _pairs(old, new):
        found = compare_positions(name, before, after)
        if found is None:
            why = f"source {name} is {before.form} in one checkpoint and {after.form} in the other"
            return ReachComparison(comparable=False, why=why)
        sources.append(found)
    return ReachComparison(
        holds=all(source.missing == 0 for source in sources),
        equal=all(_is_same(before, after) for _, before, after in _pairs(old, new)),
        sources=tuple(sources),
    )


def equal_batches(old: Tree, new: Tree) -> tuple[int, int] | None:
    """Return the newest pair of committed batches, old and new, after which both positions are equal; None if there is
    no such pair.

    The search covers the last 200 batches of each checkpoint, without batches whose plan or commit no longer exists.
    Raises the errors of ``until_unchanged``.
    """

    def look(tree: Tree) -> tuple[PositionHistory, list[int]] | None:
        seen = tree.fresh()
        batches = _committed(seen)
        return (PositionHistory(seen, batches), batches) if batches else None

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
    """Return the sorted paths of missing input files that were read up to the last commit, and the number of all files
    read.

    A rebuild from the beginning would lack the missing files. ``unseen``: as in ``look_for_files``. Raises Unsupported
    if a file cannot be checked, and the errors of ``position``.
    """
    found: set[str] = set()
    for source in position(tree).sources.values():
        found |= source.listed
    look = look_for_files(sorted(found), unseen=unseen)
    if look.unchecked:
        raise Unsupported(look.unchecked_clause("files that were read"))
    return list(look.missing), len(found)


def missing_since(now: Position, then: Position, *, unseen: Mapping[str, str] | None = None) -> FileLook:
    """Check whether the files that a query read between the positions ``then`` and ``now`` still exist.

    A resume from ``then`` would silently skip any missing file. ``unseen``: as in ``look_for_files``.
    """
    since: set[str] = set()
    for name, source in now.sources.items():
        since |= source.listed - then.sources.get(name, NothingRead()).listed
    return look_for_files(sorted(since), unseen=unseen)


def _committed(tree: Tree) -> list[int]:
    """Return the newest committed batches whose plans exist, newest first."""
    newest = last_committed(tree)
    if newest is None:
        return []
    there = set(numbered(tree, "commits")) & set(numbered(tree, "offsets"))
    return sorted((batch for batch in there if batch > newest - _LOOK_BACK), reverse=True)


def _differ(old: Position, new: Position) -> str:
    """Return why the sources of two positions cannot be matched; empty if they can."""
    if not old.sources or not new.sources:
        return ""
    if old.named and new.named:
        if old.sources.keys() == new.sources.keys():
            return ""
        return f"one checkpoint reads {', '.join(sorted(old.sources))}, the other {', '.join(sorted(new.sources))}"
    if len(old.sources) != len(new.sources):
        return f"one checkpoint has {count(len(old.sources), 'sources')}, the other {len(new.sources)}"
    if old.named != new.named and len(old.sources) > 1:
        return "one checkpoint names its sources, the other numbers them"
    return ""


def _pairs(old: Position, new: Position) -> Iterator[tuple[str, SourcePosition, SourcePosition]]:
    nothing = NothingRead()
    if not old.sources or not new.sources or (old.named and new.named):
        for name in old.sources or new.sources:
            yield name, old.sources.get(name, nothing), new.sources.get(name, nothing)
        return
    for (name, before), after in zip(old.sources.items(), new.sources.values(), strict=True):
        yield name, before, after


def _is_same(old: SourcePosition, new: SourcePosition) -> bool:
    """Whether two positions are equal. A source that has read no file has the same position as a source without an
    offset.
    """
    return old.is_same(new) or (old.is_nothing and new.is_nothing)
