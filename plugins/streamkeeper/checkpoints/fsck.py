"""Examining a checkpoint without Spark: every damage that its files show, and what a start would do with it.

For a checkpoint whose query does not run: a batch under way looks like one that a crash left. What leaves no trace is
not seen: another query id, or, on a query without state, the last batch removed from both logs with its checksums.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.entries import Commit, Offsets, Trouble, commit_in, offsets_in
from streamkeeper.checkpoints.file_sources import FileSource, file_sources, source_entries
from streamkeeper.checkpoints.layout import last_committed, last_planned, must_be_directory, numbered
from streamkeeper.checkpoints.log_damage import commit_damage, offset_damage, order_damage, orphaned_checksums
from streamkeeper.checkpoints.operator_metadata import operator_folders
from streamkeeper.checkpoints.shapes import damage
from streamkeeper.checkpoints.source_damage import (
    entries_beyond,
    repeated_offsets,
    source_damage,
    unplanned_entries,
)
from streamkeeper.checkpoints.state_damage import state_beyond, state_damage
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.checkpoints.wholeness import differs_from_checksum
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged
from streamkeeper.model.damage import Damage

_PARTS = ("metadata", "offsets", "commits", "sources", "state")
_UUID = re.compile(r"[0-9a-fA-F]{1,8}(-[0-9a-fA-F]{1,4}){3}-[0-9a-fA-F]{1,12}")


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The two logs as a start reads them."""

    planned: int | None
    committed: int | None
    plan: Offsets | None
    previous: Offsets | None
    sources: tuple[FileSource, ...]

    @property
    def newest(self) -> int:
        """The newest batch that either log knows; -1 without any."""
        return max((each for each in (self.planned, self.committed) if each is not None), default=-1)

    @property
    def resumed(self) -> int:
        """The batch whose state a start loads; -1 before the first."""
        if self.planned is None:
            return -1
        known = self.planned - 1 if self.committed is None else self.committed
        return known if known <= self.planned else self.planned - 1

    @property
    def ended(self) -> bool:
        """Whether the last planned batch is committed."""
        return self.planned is not None and self.planned == self.committed

    @property
    def ran_without_data(self) -> bool:
        """Whether the last plan only moves the watermark: Spark makes such batches for state alone."""
        if self.plan is None or self.previous is None:
            return False
        return self.plan.ends == self.previous.ends and self.plan.watermark_ms > self.previous.watermark_ms


def examine(checkpoint: Path, *, stateful: bool = False) -> tuple[Damage, ...]:
    """Every damage of a checkpoint, and notes on what only looks like one; none for a sound or an empty directory.

    ``stateful``: the query is known to keep state, so that a state directory that is gone is seen in format 1 too.
    Raises NotFound when there is no such directory, CheckpointChanged when a file disappears meanwhile.
    """
    must_be_directory(checkpoint)
    try:
        return tuple(_examine(checkpoint, stateful=stateful))
    except FileNotFoundError as error:
        raise CheckpointChanged(f"{error.filename} was removed meanwhile", hint="stop the query first") from error


def _examine(checkpoint: Path, *, stateful: bool) -> Iterator[Damage]:
    names = {path.name for path in checkpoint.iterdir() if not path.name.startswith(".")}
    if names and names.isdisjoint(_PARTS):
        evidence = f"neither metadata nor offsets, but {', '.join(sorted(names)[:3])}"
        yield damage("not-a-checkpoint", ".", evidence)
    if names.isdisjoint(_PARTS):
        return
    seen = _look(checkpoint)
    found = [*_identity(checkpoint, seen), *_logs(checkpoint, seen), *_state(checkpoint, seen, stateful=stateful)]
    yield from found
    yield from _checksums(checkpoint, seen, {each.where for each in found})
    yield from _leftovers(checkpoint)


def _look(checkpoint: Path) -> _Seen:
    planned = last_planned(checkpoint)
    plan = _readable(checkpoint, planned)
    previous = _readable(checkpoint, planned - 1 if planned else None)
    sources = file_sources(checkpoint, plan, previous) if plan else ()
    return _Seen(planned=planned, committed=last_committed(checkpoint), plan=plan, previous=previous, sources=sources)


def _readable(checkpoint: Path, batch: int | None) -> Offsets | None:
    found = offsets_in(checkpoint, batch) if batch is not None else None
    return None if isinstance(found, Trouble) else found


def _identity(checkpoint: Path, seen: _Seen) -> Iterator[Damage]:
    path = checkpoint / "metadata"
    if not path.is_file():
        if seen.newest >= 0:
            yield damage("metadata-missing", "metadata", f"batch {seen.newest} is known, metadata is missing")
        return
    content = path.read_bytes()
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if not content:
        yield damage("metadata-empty", "metadata", "metadata has 0 bytes")
    elif not isinstance(found, dict) or not _UUID.fullmatch(str(found.get("id"))):
        yield damage("metadata-garbage", "metadata", "metadata holds no query id")


def _logs(checkpoint: Path, seen: _Seen) -> Iterator[Damage]:
    if seen.committed is not None:
        yield from commit_damage(checkpoint, seen.committed)
    if seen.planned is None:
        yield from _without_offsets(checkpoint, seen)
        return
    yield from offset_damage(checkpoint, seen.planned)
    for source in seen.sources:
        yield from source_damage(source)
    ended = [*_removed(checkpoint, "commits", seen.planned - 1), *entries_beyond(seen.sources, 0)]
    yield from order_damage(seen.planned, seen.committed, ended)
    removed = [*_removed(checkpoint, "offsets", seen.newest), *state_beyond(checkpoint, seen.newest)]
    removed += _removed(checkpoint, "commits", seen.newest) + (entries_beyond(seen.sources, 1) if seen.ended else [])
    if removed:
        yield damage("rewound", f"offsets/{seen.newest + 1}", "; ".join(removed))
    elif seen.ended:
        yield from _beyond_by_one(checkpoint, seen)


def _without_offsets(checkpoint: Path, seen: _Seen) -> Iterator[Damage]:
    """No batch is planned: as before the first one, unless something tells of batches."""
    if seen.committed is not None:
        yield damage("offsets-gone", "offsets", f"commits go up to {seen.committed}, offsets holds no batch")
        return
    state = [path for path in _listed(checkpoint / "state") if not path.name.startswith(".")]
    if state:
        evidence = f"there is no batch, but {state[0].relative_to(checkpoint)}"
        yield damage("offsets-and-commits-gone-beside-state", "offsets", evidence)
        return
    logs = {source.name: max(source_entries(source), default=-1) for source in _listed(checkpoint / "sources")}
    told = [f"sources/{name} has entry {newest}" for name, newest in logs.items() if newest > 0]
    told += [*_removed(checkpoint, "offsets", -1), *_removed(checkpoint, "commits", -1)]
    if told:
        yield damage("offsets-and-commits-gone", "offsets", f"there is no batch, but {told[0]}")


def _beyond_by_one(checkpoint: Path, seen: _Seen) -> Iterator[Damage]:
    repeated: list[Damage] = []
    if seen.plan is not None and not (checkpoint / "state").exists():
        repeated = list(repeated_offsets(seen.plan, seen.previous, seen.sources))
    yield from repeated or unplanned_entries(seen.sources)


def _state(checkpoint: Path, seen: _Seen, *, stateful: bool) -> Iterator[Damage]:
    if seen.resumed < 0:
        return
    commit = commit_in(checkpoint, seen.resumed)
    if isinstance(commit, Trouble) and commit is not Trouble.MISSING:
        return
    partitions = {} if isinstance(commit, Trouble) else commit.partitions
    if not partitions and isinstance(commit, Commit) and commit.version > 1 and operator_folders(checkpoint):
        where = f"commits/{seen.resumed}"
        yield damage("commit-cut-short", where, f"{where} does not name the state files")
        return
    yield from state_damage(checkpoint, seen.resumed, partitions, stateful=stateful or seen.ran_without_data)


def _checksums(checkpoint: Path, seen: _Seen, named: set[str]) -> Iterator[Damage]:
    """Files that a start reads and Hadoop would refuse; those named already are left out."""
    for path in sorted(_read_on_start(checkpoint, seen)):
        if path not in named and differs_from_checksum(checkpoint / path):
            yield damage("checksum-mismatch", path, f"{path} is not what its .crc file was made of")


def _read_on_start(checkpoint: Path, seen: _Seen) -> set[str]:
    found = {"metadata"}
    if seen.planned is not None:
        found |= {f"offsets/{each}" for each in (seen.planned - 1, seen.planned)}
    if seen.committed is not None:
        found.add(f"commits/{seen.committed}")
    found |= {path.relative_to(checkpoint).as_posix() for source in seen.sources for path in source.entries.values()}
    try:
        return found | set(closed_set(LocalTree(checkpoint), seen.resumed, pending=seen.resumed != seen.planned))
    except CheckpointDamaged:
        return found


def _leftovers(checkpoint: Path) -> Iterator[Damage]:
    """What every crash or copy leaves, and no start minds."""
    halves = sorted(checkpoint.rglob("*.tmp"))
    if halves:
        where = str(halves[0].relative_to(checkpoint))
        yield damage("leftover-temporary-files", where, f"{len(halves)} of them")
    logs = [checkpoint / log for log in ("offsets", "commits")]
    if any(numbered(log) for log in logs) and not any(list(log.glob(".*.crc")) for log in logs):
        yield damage("checksums-missing", ".", "offsets and commits have no .crc files")


def _removed(checkpoint: Path, log: str, newest: int) -> list[str]:
    """Evidence that an entry beyond ``newest`` was there and is not."""
    beyond = [each for each in orphaned_checksums(checkpoint, log) if each > newest]
    return [f"{log}/.{beyond[0]}.crc is there without its file"] if beyond else []


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
