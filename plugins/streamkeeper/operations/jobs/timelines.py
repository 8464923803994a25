"""The history of a job, newest first: its operations, and the records of persons between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from streamkeeper.compatibility.report import told_way
from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import (
    DesiredChanged,
    Entry,
    JobForgotten,
    OperationFinished,
    ReleaseRegistered,
)
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.rebuilt import JobRebuilt
from streamkeeper.model.redaction import Structure
from streamkeeper.operations.jobs.carriers import Carrier, read_carrier
from streamkeeper.operations.jobs.endings import handover_s
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.job_facts import release_of
from streamkeeper.operations.jobs.journal_entries import read_entries
from streamkeeper.operations.jobs.sentences import kind_of, render_record

OPERATIONS = 10
"""Operations on one page of a timeline."""
MOST_ENTRIES = 500
"""Limit of entries read for a page, because a driver that restarts repeatedly leaves an entry for each restart."""
_READERS = 8


class TimelineRow(msgspec.Struct, frozen=True, kw_only=True):
    """One operation, or one record outside of operations.

    A record outside of operations has only the fields up to ``sentence``, and ``release``.
    """

    number: int
    """The number of the first journal entry."""
    at: Structure
    """When that entry was written, ISO 8601, by its writer's clock."""
    kind: Structure
    """The kind of the request or record."""
    by: str = ""
    """The requester."""
    reason: str = ""
    """The reason of the request."""
    sentence: str = ""
    """The operation's outcome, or the record, in words."""
    operation: Structure = ""
    """The operation's id; empty for a record without one."""
    release: Structure = ""
    """The release."""
    dry_run: bool = False
    """Whether the operation was a dry run."""
    verdict: Structure = ""
    """The name of the verdict; empty without one."""
    outcome: Structure = ""
    """The operation's outcome, or ``open``."""
    versions: dict[str, str] = {}
    """Query -> its transition."""
    gap_s: float | None = None
    """Seconds that the handover took, as in ``OperationEnding.handover_s``; None if no driver was replaced."""
    took_s: float | None = None
    """The operation's duration in seconds; None while it is open."""
    dag: Structure = ""
    """The operation's DAG in Airflow; empty if unknown."""
    run: Structure = ""
    """The operation's DAG run in Airflow; empty if unknown."""


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a history.

    ``rows``: newest first; ``older``: the argument ``before`` for the next page, 0 if there is no further page.
    """

    rows: tuple[TimelineRow, ...]
    older: int = 0


def read_timeline(installation: Installation, state: JobState, *, before: int = 0) -> Timeline:
    """Return the newest page of a job's history, or of the part of the history before one journal entry.

    ``before``: the number of that entry, which is not on the page; 0 for the whole history.

    Raises RegistryDamaged, FormatTooNew, StoreUnavailable.
    """
    last = min(before - 1, state.number) if before > 0 else state.number
    begun = sorted((op for op in state.operations.values() if op.started <= last), key=lambda op: op.started)
    first = max(begun[-OPERATIONS].started if len(begun) > OPERATIONS else 1, last - MOST_ENTRIES + 1)
    entries = list(read_entries(installation.journal(state.job, "reader"), first, last))
    shown = [operation for operation in begun if operation.started >= first]
    carriers = _read_carriers(installation, state.job, shown)
    rows = [*_operations(state, shown, entries, carriers), *_between(state, entries)]
    return Timeline(rows=tuple(sorted(rows, key=lambda row: row.number, reverse=True)), older=first if first > 1 else 0)


def _read_carriers(installation: Installation, job: str, operations: Sequence[OperationState]) -> dict[str, Carrier]:
    """Return operation -> its carrier. A carrier that cannot be read is omitted, and its row then has no link."""

    def read(operation: OperationState) -> Carrier | None:
        try:
            return read_carrier(installation.store, job, operation.operation)
        except StreamkeeperError:
            return None

    with ThreadPoolExecutor(_READERS) as pool:
        found = zip(operations, pool.map(read, operations), strict=True)
        return {operation.operation: carrier for operation, carrier in found if carrier is not None}


def _operations(
    state: JobState, shown: Sequence[OperationState], entries: Sequence[Entry], carriers: dict[str, Carrier]
) -> Iterator[TimelineRow]:
    # Only one operation is open at a time: its entries end where the next operation starts.
    ends = [*(operation.started for operation in shown[1:]), state.number + 1]
    for operation, end in zip(shown, ends, strict=False):
        mine = [entry for entry in entries if operation.started <= entry.number < end]
        yield _operation(state, operation, mine, carriers.get(operation.operation, Carrier()))


def _operation(state: JobState, operation: OperationState, mine: Sequence[Entry], carrier: Carrier) -> TimelineRow:
    request, began = operation.request, mine[0] if mine else None
    over = next((entry for entry in mine if isinstance(entry.record, OperationFinished)), None)
    return TimelineRow(
        number=operation.started,
        at=began.at if began is not None else "",
        kind=kind_of(request),
        by=request.requested_by,
        reason=request.reason,
        sentence=operation.sentence or operation.fall_back,
        operation=operation.operation,
        release=release_of(operation),
        dry_run=request.dry_run,
        verdict=operation.verdict.name if operation.verdict is not None else "",
        outcome=operation.outcome.value if operation.outcome is not None else "open",
        versions={query: told_way(way) for query, way in sorted(operation.transitions.items())},
        gap_s=handover_s(state, operation.operation, mine),
        took_s=_between_s(began, over),
        dag=carrier.dag,
        run=carrier.run,
    )


def _between(state: JobState, entries: Iterable[Entry]) -> Iterator[TimelineRow]:
    """Yield the records of persons outside of operations."""
    about = {release_of(operation) for operation in state.operations.values()}
    for entry in entries:
        match entry.record:
            case DesiredChanged(serve=serve, operation=operation) if operation not in state.operations:
                kind = "serve" if serve else "stop"
            case JobForgotten():
                kind = "forget"
            case JobRebuilt():
                kind = "rebuild the journal"
            case ReleaseRegistered(release=release) if release.name not in about:
                yield _record(entry, "push", release=release.name, by=entry.by.partition("#")[0])
                continue
            case _:
                continue
        asked = entry.record
        yield _record(entry, kind, by=asked.requested_by, reason=asked.reason)


def _record(entry: Entry, kind: str, *, by: str, reason: str = "", release: str = "") -> TimelineRow:
    sentence = render_record(entry.record)
    return TimelineRow(
        number=entry.number, at=entry.at, kind=kind, by=by, reason=reason, release=release, sentence=sentence
    )


def _between_s(began: Entry | None, over: Entry | None) -> float | None:
    if began is None or over is None or began.moment is None or over.moment is None:
        return None
    return round(over.moment - began.moment, 1)
