"""Reads from a checkpoint where its sources started, and which positions they have reached.

File sources are left out: their positions are lists of files, which ``positions`` reads.
"""

from __future__ import annotations

from streamkeeper.checkpoints.layout import last_planned, read_offsets
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.sources.contract import NothingRead, SourceKind, SourcePosition
from streamkeeper.sources.known_sources import offset_line, position_of, start_in


def read_start(tree: Tree, source: str) -> str | None:
    """Return the offsets at which a source started, as one line of JSON; None if the checkpoint does not record them.

    ``source``: the name of the source's folder.
    """
    try:
        return start_in(tree.read(f"sources/{source}/0"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def start_offsets(tree: Tree, sources: int) -> tuple[str, ...]:
    """Return the offsets at which each source started, as one line of JSON per source.

    The line is ``null`` for a source that reads from the beginning, such as a file source. ``sources``: the number of
    the query's sources; a source that the query reads twice counts once. Raises CheckpointDamaged if the newest plan
    cannot be read.
    """
    planned = last_planned(tree)
    plan = read_offsets(tree, planned) if planned is not None else None
    named = plan is not None and plan.named and len(plan.ends) == sources
    folders = list(plan.ends) if plan is not None and named else [str(number) for number in range(sources)]
    return tuple(read_start(tree, folder) or "null" for folder in folders)


def stands_at(tree: Tree, batch: int | None) -> dict[str, SourcePosition]:
    """Return the position of every source after ``batch``, by the source's id in the offset log.

    If ``batch`` is None, return the positions before the first batch, at which the sources started. Raises
    CheckpointDamaged if the plan of ``batch`` cannot be read.
    """
    if batch is None:
        lines = {name: read_start(tree, name) for name in tree.folders("sources")}
    else:
        lines = {name: offset_line(end) for name, end in read_offsets(tree, batch).ends.items()}
    return {name: position_of(line) for name, line in lines.items() if line is not None}


def read_by(tree: Tree, batch: int) -> dict[str, SourcePosition]:
    """Return the position at which ``batch`` begins to read each source. The position lacks the parts of a source from
    which the batch reads nothing, and the parts for which no position before the batch is recorded.

    Raises CheckpointDamaged if the plan of ``batch`` or of the batch before it cannot be read.
    """
    starts = stands_at(tree, batch - 1 if batch > 0 else None)
    ends = stands_at(tree, batch)
    return {name: starts.get(name, NothingRead()).before(end) for name, end in ends.items()}


def places_read(tree: Tree, batch: int | None) -> set[str]:
    """Return the names of the places, such as topics, in which a source has a position after ``batch``.

    ``batch``: as in ``stands_at``. Raises the errors of ``stands_at``.
    """
    return {place for position in stands_at(tree, batch).values() for place in position.places}


def would_read_on(tree: Tree, source: str, kind: SourceKind, place: str) -> bool:
    """Whether a source of this kind at ``place`` certainly covers every part in which the source has a position after
    the last planned batch. False if the source has no such position.

    ``source``: the source's id in the offset log.
    """
    planned = last_planned(tree)
    position = stands_at(tree, planned).get(source) if planned is not None else None
    return position is not None and kind.reads_on(position, place)
