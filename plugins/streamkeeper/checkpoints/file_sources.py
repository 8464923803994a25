"""The file sources of a plan and the logs of what they have listed: ``sources/<position or name>``.

A query that reads one source twice has two offsets and one log; the logs are counted without the repetition.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from streamkeeper.checkpoints.entries import Offsets, read_listing
from streamkeeper.checkpoints.parsing import parse_json
from streamkeeper.errors import CheckpointDamaged

_COUNTED = 1


class FileSource(msgspec.Struct, frozen=True, kw_only=True):
    """A file source of a plan: its offset there, the one before it, and the entries of its log.

    ``log``: the log's folder name; None where the source seems to share the log of one before it.
    """

    name: str
    start: int | None
    end: int
    log: str | None
    entries: dict[int, Path]

    @property
    def newest(self) -> int:
        """The newest entry of its log; -1 without any."""
        return max(self.entries, default=-1)


def file_sources(checkpoint: Path, plan: Offsets, previous: Offsets | None) -> tuple[FileSource, ...]:
    """The file sources of a plan, in its order."""
    logs = _logs(checkpoint, plan)
    found = []
    for name, end in plan.ends.items():
        offset = log_offset(end)
        if offset is not None:
            start = log_offset(previous.ends.get(name, "")) if previous else None
            log = logs[name]
            entries = source_entries(checkpoint / "sources" / (log or _first_like(plan, logs, name)))
            found.append(FileSource(name=name, start=start, end=offset, log=log, entries=entries))
    return tuple(found)


def files_of(checkpoint: Path, source: FileSource) -> tuple[str, ...]:
    """URLs of the files that the plan's batch reads of a source; raises CheckpointDamaged."""
    found: list[str] = []
    for entry in range(0 if source.start is None else source.start + 1, source.end + 1):
        holder = next((path for number, path in source.entries.items() if _holds(number, path, entry)), None)
        if holder is None:
            raise CheckpointDamaged(f"{checkpoint / 'sources' / (source.log or source.name) / str(entry)} is missing")
        found += [url for number, url in read_listing(holder).files if number == entry]
    return tuple(found)


def source_entries(log: Path) -> dict[int, Path]:
    """Entry -> file of a file source's log, compacted or not, in order; none where there is no log."""
    try:
        names = [path.name for path in log.iterdir() if path.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    numbers = sorted((entry_of(name), name) for name in names if _is_entry(name))
    return {number: log / name for number, name in numbers}


def entry_of(name: str) -> int:
    """The number of an entry of a file source's log by its file's name, compacted or not."""
    return int(name.removesuffix(".compact"))


def log_offset(end: str) -> int | None:
    """A file source's offset; None for another kind of source, or for none."""
    try:
        found = parse_json(end)["logOffset"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None


def _logs(checkpoint: Path, plan: Offsets) -> dict[str, str | None]:
    """Source -> its log's folder: its own name, unless there are fewer logs than sources and equal offsets."""
    names = list(plan.ends)
    there = {path.name for path in (checkpoint / "sources").glob("*") if path.is_dir()}
    too_many = len(names) - len(there)
    counted = plan.version == _COUNTED and all(log_offset(each) is not None for each in plan.ends.values())
    if not counted or too_many <= 0 or there != {str(each) for each in range(len(there))} or not there:
        return {name: name for name in names}
    repeated = [name for at, name in enumerate(names) if plan.ends[name] in _ends_of(plan, names[:at])]
    if len(repeated) < too_many:
        return {name: name for name in names}
    sharing = set(repeated[:too_many])
    own = iter(sorted(there, key=int))
    return {name: None if name in sharing else next(own) for name in names}


def _first_like(plan: Offsets, logs: dict[str, str | None], name: str) -> str:
    """The log that a source shares: of the first one with its offset."""
    return next(log for other, log in logs.items() if log is not None and plan.ends[other] == plan.ends[name])


def _ends_of(plan: Offsets, names: list[str]) -> set[str]:
    return {plan.ends[name] for name in names}


def _holds(number: int, path: Path, entry: int) -> bool:
    """An entry's own file, or a later compacted one: Spark removes the files that it has compacted."""
    return number == entry or (number > entry and path.suffix == ".compact")


def _is_entry(name: str) -> bool:
    return name.removesuffix(".compact").isdecimal()
