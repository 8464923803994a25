"""The file sources of a plan and the logs of the files they have listed: ``sources/<position or name>``.

A file source numbers its log entries independently of batches. A batch without new files adds no entry. After a crash
between an entry and its plan, one batch takes two entries. Other sources have a single entry ``0`` with their start
(Kafka, rate), or no entry. A query that reads one source twice has two offsets and one log; the numbers of the logs
count that source once.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from streamkeeper.checkpoints.layout import read_offsets
from streamkeeper.checkpoints.listed import Listed
from streamkeeper.checkpoints.log_codec import (
    SEEN_BEFORE,
    LoggedFile,
    LogNames,
    Offsets,
    Trouble,
    entry_number,
    log_names,
    source_entry_from,
    whole,
)
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged
from streamkeeper.sources.files import log_offset

_COUNTED = 1


class FileSource(msgspec.Struct, frozen=True, kw_only=True):
    """A file source of a planned batch: its log, and its offsets before and after that batch."""

    name: str
    """The source's position or name."""
    start: int | None
    """The source's offset in the previous plan; None without a previous plan, or if the source has no offset in it."""
    end: int
    """The source's offset in the plan."""
    log: str | None
    """The name of the log's folder; None if the source seems to share the log of an earlier source."""
    folder: str
    """The path of the folder with the source's log, which may be the log of an earlier source."""
    entries: LogNames
    """The entries of that log."""


def file_sources(tree: Tree, plan: Offsets, previous: Offsets | None) -> tuple[FileSource, ...]:
    """Return the file sources of a plan, in the plan's order."""
    logs = _logs(tree, plan)
    found = []
    for name, end in plan.ends.items():
        offset = log_offset(end)
        if offset is not None:
            start = log_offset(previous.ends.get(name, "")) if previous else None
            log = logs[name]
            folder = f"sources/{log or _first_like(plan, logs, name)}"
            entries = log_names(tree.files(folder))
            found.append(FileSource(name=name, start=start, end=offset, log=log, folder=folder, entries=entries))
    return tuple(found)


def files_of(tree: Tree, source: FileSource) -> tuple[str, ...]:
    """Return the URLs of the files that the planned batch reads from ``source``: those in the log entries after the
    source's ``start``, up to its ``end``.

    Raises the errors of ``logged_files``.
    """
    first = 0 if source.start is None else source.start + 1
    files = logged_files(tree, source, source.end, first=first)
    return tuple(file.path for file in files if file.batch_id != SEEN_BEFORE)


def logged_files(tree: Tree, source: FileSource, end: int, *, first: int = 0) -> list[LoggedFile]:
    """Return every file that the source's log lists in the entries ``first`` to ``end``, in order. If ``first`` is 0,
    also return the files that count as read before the first batch (``SEEN_BEFORE``).

    Files in entries after ``end`` are excluded, even if a compacted log file lists them too. Raises CheckpointDamaged
    if the log is damaged, CheckpointChanged if an entry was removed while the log was being read.
    """
    found: list[LoggedFile] = []
    for name in source.entries.holding(end, first=first, where=tree.where(source.folder)):
        files = read_source_entry(tree, f"{source.folder}/{name}")
        found += (
            file for file in files if first <= file.batch_id <= end or (file.batch_id == SEEN_BEFORE and not first)
        )
    return found


def read_source_entry(tree: Tree, path: str) -> list[LoggedFile]:
    """Read one entry of a file source's log.

    Raises CheckpointChanged if the entry is missing, CheckpointDamaged if it cannot be read.
    """
    found = source_entry_in(tree, path)
    if found is Trouble.MISSING:
        raise CheckpointChanged(f"{tree.where(path)} was removed while it was being read")
    return whole(found, tree.where(path))


def source_entry_in(tree: Tree, path: str) -> list[LoggedFile] | Trouble:
    """Read one entry of a file source's log. Return a Trouble if the entry is missing or cannot be read."""
    try:
        return source_entry_from(tree.read(path), path.rpartition("/")[2])
    except FileNotFoundError:
        return Trouble.MISSING


def source_files(seen: Listed, newest: int) -> Iterator[str]:
    """Yield the paths of the sources' log entries that Spark needs to start after batch ``newest``.

    For a file source these are the last two compacted entries and the entries after the last compacted entry. Raises
    CheckpointDamaged when an entry or the plan is missing or unreadable.
    """
    folders = seen.folders("sources")
    if not folders or newest < 0:
        return
    ends = {name: log_offset(end) for name, end in read_offsets(seen.tree, newest).ends.items()}
    counted = {name: end for name, end in ends.items() if end is not None}
    for name in folders:
        folder = f"sources/{name}"
        entries = log_names(seen.files(folder))
        if ends.keys() == set(folders):
            stands = counted.get(name)
        else:
            # A source that is read twice has two offsets and one log, and it is unknown which offset belongs to the
            # log. So the furthest offset that the log reaches counts. The next batch reads the entries beyond the
            # source's own offset, and only once.
            stands = max((end for end in counted.values() if end <= entries.newest), default=None)
        if stands is None:
            yield from (f"{folder}/{file}" for file in seen.files(folder) if entry_number(file) is not None)
        else:
            yield from (f"{folder}/{file}" for file in _needed(entries, stands, seen.tree.where(folder)))


def _needed(entries: LogNames, stands: int, where: str) -> Iterator[str]:
    held = entries.holding(stands, where=where)
    yield from held
    start = entry_number(held[0]) if held else None
    if start in entries.compacted:
        # The earlier compacted entry is needed for its number, not for its files: Spark takes the distance of two
        # compacted entries as the interval. From a single entry Spark guesses an interval: 20 from 19.compact, but 10
        # from 39.compact, and then entries seem to be missing.
        yield from (f"{number}.compact" for number in entries.compacted[: entries.compacted.index(start)][-1:])


def _logs(tree: Tree, plan: Offsets) -> dict[str, str | None]:
    """Return the name of each source's log folder, by source.

    The folder has the source's name, unless there are fewer logs than sources and some offsets are equal.
    """
    names = list(plan.ends)
    there = set(tree.folders("sources"))
    too_many = len(names) - len(there)
    counted = plan.version == _COUNTED and all(log_offset(end) is not None for end in plan.ends.values())
    if not counted or too_many <= 0 or there != {str(number) for number in range(len(there))} or not there:
        return {name: name for name in names}
    repeated = [name for index, name in enumerate(names) if plan.ends[name] in _ends_of(plan, names[:index])]
    if len(repeated) < too_many:
        return {name: name for name in names}
    sharing = set(repeated[:too_many])
    own = iter(sorted(there, key=int))
    return {name: None if name in sharing else next(own) for name in names}


def _first_like(plan: Offsets, logs: dict[str, str | None], name: str) -> str:
    """Return the log that a source shares, which is the log of the first source with the same offset."""
    return next(log for other, log in logs.items() if log is not None and plan.ends[other] == plan.ends[name])


def _ends_of(plan: Offsets, names: list[str]) -> set[str]:
    return {plan.ends[name] for name in names}
