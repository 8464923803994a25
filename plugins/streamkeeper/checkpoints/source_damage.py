"""Damage to the logs of file sources, and offsets that contradict these logs. Other sources keep no log that offsets
could be compared with.

Spark reads every entry since the last compacted one, and those between the last two offsets. It writes an entry just
before the plan that names the entry, so a crash in between leaves one entry beyond the last plan.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.checkpoints.file_sources import FileSource, source_entry_in
from streamkeeper.checkpoints.gaps import find_gaps
from streamkeeper.checkpoints.log_codec import Offsets, Trouble
from streamkeeper.checkpoints.shapes import damage
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.model.protocol.damage import Damage

_SHAPES = {
    Trouble.MISSING: "source-log-entry-missing",
    Trouble.EMPTY: "source-log-entry-empty",
    Trouble.UNKNOWN_VERSION: "source-log-entry-damaged",
    Trouble.NEWER: "newer-format",
    Trouble.CUT_SHORT: "source-log-entry-damaged",
}


def source_damage(tree: Tree, source: FileSource) -> Iterator[Damage]:
    """Find damage to one source: missing or unreadable log entries that Spark needs to start, and offsets with which
    Spark cannot start.
    """
    if source.log is None:
        evidence = f"source {source.name} is at the offset of another source and has no log of its own"
        yield damage("source-log-shared", f"sources/{source.name}", evidence)
        return
    where = f"sources/{source.log}"
    if source.start is not None and source.end < source.start:
        evidence = f"source {source.name} moved back from logOffset {source.start} to {source.end}"
        yield damage("source-offset-before-previous", "offsets", evidence)
    there = source.entries.numbers
    if not there:
        yield damage("source-log-missing", where, f"the log has no entry, but the offset is {source.end}")
        return
    needed = _needed(source)
    missing = find_gaps(needed.start, needed.stop, there)
    if source.entries.newest < source.end and not _is_lost(source):
        evidence = f"logOffset {source.end}, but the log of source {source.name} ends with {source.entries.newest}"
        yield damage("source-offset-ahead", where, evidence)
        missing = find_gaps(needed.start, source.entries.newest, there)
    if missing.count:
        evidence = f"missing: {missing}; the offset is {source.end}"
        yield damage("source-log-entry-missing", f"{where}/{missing.first[0]}", evidence)
    for name in (source.entries.name_of(number) for number in sorted(there) if number in needed):
        trouble = source_entry_in(tree, f"{where}/{name}")
        if isinstance(trouble, Trouble):
            yield damage(_SHAPES[trouble], f"{where}/{name}", f"{name} {trouble.value}")


def entries_beyond(sources: tuple[FileSource, ...], allowed: int) -> list[str]:
    """Return, as evidence, one phrase for each source whose log has more than ``allowed`` entries after the last
    planned batch.
    """
    return [
        f"sources/{source.log} has entry {source.entries.newest}, but the last plan ends with {source.end}"
        for source in sources
        if source.log is not None and source.entries.newest > source.end + allowed
    ]


def unplanned_entries(sources: tuple[FileSource, ...]) -> Iterator[Damage]:
    """Report source logs with exactly one entry after the last planned batch. A crash can leave such an entry."""
    for source in sources:
        if source.log is not None and source.entries.newest == source.end + 1:
            evidence = f"the entry is listed, but the last planned batch ends with entry {source.end}"
            yield damage("unplanned-source-entry", f"sources/{source.log}/{source.entries.newest}", evidence)


def repeated_offsets(plan: Offsets, previous: Offsets | None, sources: tuple[FileSource, ...]) -> Iterator[Damage]:
    """Report that the last plan adds no input although a source's log has entries after that plan.

    Call this only for a query without state. A query with state also plans batches without new input, so that such a
    plan proves no damage.
    """
    listed = entries_beyond(sources, 0)
    if previous is not None and listed and plan.ends == previous.ends:
        evidence = f"the last two plans are equal, and {listed[0]}"
        yield damage("source-offset-back", "offsets", evidence)


def _needed(source: FileSource) -> range:
    """Return the entries that a start reads: those since the last compacted entry, and those of the last
    planned batch.
    """
    start = max(source.entries.compacted, default=0)
    first = start if source.start is None else min(start, source.start + 1)
    return range(max(first, 0), max(source.entries.newest, source.end) + 1)


def _is_lost(source: FileSource) -> bool:
    """Whether the log lost entries; if not, the source's offset is ahead of the log. A batch takes one entry."""
    step = source.end - (-1 if source.start is None else source.start)
    return step <= 1 or source.entries.newest < (source.start or 0)
