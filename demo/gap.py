"""Measures the gap in the output at a handover, from the write times of both drivers' commits.

Both drivers wrote on this machine, so one clock applies to both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import Entry, EpochClaimed, InstanceEnded, Outcome, StepDone
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import Transition
from streamkeeper.registry.journal import Journal


def handover_gap_s(journal: Journal, operation: str, checkpoints: Path, job: str) -> float | None:
    """Return the seconds between the old driver's last commit and the new driver's first one; with several queries, the
    longest gap.

    A rebuild's gap ends at the first commit after its output was swapped in. If the deploy fell back, the gap is the
    time between the candidate's last commit and the next commit of the old release. Returns None if the operation
    replaced no driver.
    """
    state, entries = journal.state(), list(journal.entries())
    done = state.operations[operation]
    ends = _moments_of_ends(state, entries, done)
    if not ends:
        return None
    gaps = _around_fall_back if done.outcome is Outcome.FELL_BACK else _around_handover
    return max(gaps(state, entries, done, ends, checkpoints / job), default=None)


def moment_of_first_commit(journal: Journal, operation: str) -> float | None:
    """Return the time, in seconds since 1970, at which every query of the candidate had completed a trigger, or None if
    that never happened.

    The time is that of the operation's record, which is written some tenths of a second later.
    """
    tag = Step.FIRST_COMMIT.tag
    recorded = (
        _moment(entry)
        for entry in journal.entries()
        if isinstance(entry.record, StepDone) and entry.record.operation == operation and entry.record.step == tag
    )
    return next(recorded, None)


def last_before(commits: Path, moment: float) -> float | None:
    """Return the write time of the last commit before ``moment``, or None without such a commit."""
    return max((moment_written for _, moment_written in _written(commits) if moment_written <= moment), default=None)


def first_after(commits: Path, moment: float, *, batch: int = -1) -> float | None:
    """Return the write time of the first commit that is later than ``moment`` and whose batch number is above
    ``batch``, or None without such a commit.
    """
    return min(
        (written_at for number, written_at in _written(commits) if written_at > moment and number > batch), default=None
    )


def _around_handover(
    state: JobState, entries: Sequence[Entry], done: OperationState, ends: Sequence[float], root: Path
) -> Iterator[float]:
    for query, way in done.transitions.items():
        if way.way is Transition.START:
            continue
        claimed = [
            _moment(each)
            for each in entries
            if isinstance(each.record, EpochClaimed)
            and each.record.query == query
            and _of(state, each.record.instance) == done.operation
        ]
        version = state.version(query, way.version)
        seeded = (
            version.batch if way.way is Transition.HANDOFF and version is not None and version.batch is not None else -1
        )
        old, new = root / query / way.before / "commits", root / query / way.version / "commits"
        before = last_before(old, ends[0])
        after = first_after(new, claimed[0], batch=seeded) if claimed else None
        if before is not None and after is not None:
            yield after - before


def _around_fall_back(
    state: JobState, _entries: Sequence[Entry], done: OperationState, ends: Sequence[float], root: Path
) -> Iterator[float]:
    for query, way in done.transitions.items():
        left, goes_on = root / query / way.version / "commits", state.current_version(query)
        before = last_before(left, ends[-1])
        after = first_after(root / query / goes_on.version / "commits", ends[-1]) if goes_on is not None else None
        if before is not None and after is not None:
            yield after - before


def _moments_of_ends(state: JobState, entries: Sequence[Entry], done: OperationState) -> list[float]:
    """Return the end times of the drivers that were current: the old driver and, after a fall-back, the candidate."""
    return [
        _moment(entry)
        for entry in entries
        if isinstance(entry.record, InstanceEnded)
        and entry.record.operation == done.operation
        and state.instances[entry.record.instance].appointed
    ]


def _of(state: JobState, instance: str) -> str:
    return state.instances[instance].operation


def _moment(entry: Entry) -> float:
    assert entry.moment is not None
    return entry.moment


def _written(commits: Path) -> list[tuple[int, float]]:
    if not commits.is_dir():
        return []
    return [(int(entry.name), entry.stat().st_mtime) for entry in commits.iterdir() if entry.name.isdecimal()]
