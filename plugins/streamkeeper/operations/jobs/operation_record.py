"""All records of one operation, for display: this module starts no process and writes no record."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from streamkeeper.errors import NotFound, RegistryDamaged
from streamkeeper.model.manifests.finding import Assessment
from streamkeeper.model.names import check_instance
from streamkeeper.model.records.job_state import UNKNOWN_RELEASE, JobState
from streamkeeper.model.records.journal_records import Entry, OperationFinished, Outcome, Role
from streamkeeper.model.records.operation import OperationState
from streamkeeper.operations.jobs.carriers import Carrier, read_carrier
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.journal_entries import read_entries
from streamkeeper.operations.jobs.observation import read_job, read_job_again
from streamkeeper.registry.journal import Journal
from streamkeeper.registry.objects import read_assessment

_TOGETHER = 32
"""Number of entries that are read in one batch, before checking whether the operation has finished."""


class OperationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one operation."""

    state: JobState
    """The state of its job."""
    operation: OperationState
    """The state of the operation."""
    entries: tuple[Entry, ...]
    """The journal's entries from the operation's start to its end, or to the newest entry."""
    before: str
    """The release that was current when the operation started; empty if none was current."""
    assessment: Assessment | None = None
    """Its findings; None before the assessment, and if they cannot be read."""
    unreadable: str = ""
    """Why the findings cannot be read; else empty."""
    carrier: Carrier | None = None
    """The newest carrier; None if no carrier is recorded."""


def read_operation(installation: Installation, job: str, name: str, *, again: bool = False) -> OperationRecord:
    """Return the records of an operation; raises NotFound for an unknown job or operation, StoreUnavailable and
    FormatTooNew.

    ``again``: read the job from a cache, as ``read_job_again`` does, for a view that refreshes periodically.
    """
    state = read_job_again(installation, job) if again else read_job(installation, job)
    operation = state.operations.get(check_instance(name))
    if operation is None:
        raise NotFound(f"job {job} has no operation {name}")
    assessment, unreadable = None, ""
    if operation.report:
        try:
            assessment = read_assessment(installation.store, job, operation.report)
        except RegistryDamaged as error:
            unreadable = str(error)
    return OperationRecord(
        state=state,
        operation=operation,
        entries=tuple(_entries_of(installation.journal(job, "reader"), operation, state.number)),
        before=served_before(state, operation),
        assessment=assessment,
        unreadable=unreadable,
        carrier=read_carrier(installation.store, job, name),
    )


def served_before(state: JobState, operation: OperationState) -> str:
    """Return the release that was current when an operation started; empty if no release was current."""
    earlier = [
        other
        for other in state.operations.values()
        if other.outcome is Outcome.SUCCEEDED and other.started < operation.started
    ]
    last = max(earlier, key=lambda other: other.started, default=None)
    if last is None:
        return UNKNOWN_RELEASE if state.rebuilt is not None else ""
    appointed = (each.release for each in state.instances_of(last.operation, Role.CANDIDATE) if each.appointed)
    return last.release or next(appointed, "")


def _entries_of(journal: Journal, operation: OperationState, newest: int) -> Iterator[Entry]:
    """Yield the entries from an operation's start to its end, or to the newest entry. Entries in a newer format are
    skipped.
    """
    for first in range(operation.started, newest + 1, _TOGETHER):
        for entry in read_entries(journal, first, min(first + _TOGETHER - 1, newest)):
            yield entry
            record = entry.record
            if isinstance(record, OperationFinished) and record.operation == operation.operation:
                return
