"""The assessment of an operation, and the differences between its release and the one that was current before."""

from __future__ import annotations

import msgspec

from streamkeeper.compatibility.differences import Difference, find_differences
from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.manifests.finding import Assessment
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.transitions import QueryTransition
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.job_facts import release_of
from streamkeeper.operations.jobs.job_versions import released_version
from streamkeeper.operations.jobs.operation_record import served_before
from streamkeeper.registry.objects import read_assessment


class OperationFindings(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one operation, with the verdict, the decision and the differences between the releases."""

    operation: str
    """The operation's id."""
    release: str
    """The operation's release."""
    before: str
    """The release that was current when the operation started; empty if none was current."""
    decision: str
    """The verdict and the operation's decision, in words."""
    refusal: str
    """Why the operation was refused; empty if it was not."""
    assessment: Assessment
    """The findings."""
    transitions: dict[str, QueryTransition]
    """Query -> its transition."""
    differences: tuple[Difference, ...] = ()
    """The differences between the two releases."""
    undiffered: str = ""
    """Why ``differences`` could not be determined, in one sentence; empty if they were determined."""


def last_assessed(state: JobState) -> OperationState | None:
    """Return the newest operation that has a report of its assessment; None if no operation has one."""
    assessed = (operation for operation in state.operations.values() if operation.report)
    return max(assessed, key=lambda operation: operation.started, default=None)


def read_findings(installation: Installation, state: JobState, operation: OperationState) -> OperationFindings:
    """Return the findings of an assessed operation; raises RegistryDamaged, FormatTooNew, StoreUnavailable."""
    before = served_before(state, operation)
    differences, undiffered = _differences(installation, state, before, release_of(operation))
    return OperationFindings(
        operation=operation.operation,
        release=release_of(operation),
        before=before,
        decision=operation.verdict_sentence,
        refusal=operation.refusal,
        assessment=read_assessment(installation.store, state.job, operation.report),
        transitions=dict(operation.transitions),
        differences=differences,
        undiffered=undiffered,
    )


def _differences(
    installation: Installation, state: JobState, before: str, after: str
) -> tuple[tuple[Difference, ...], str]:
    if not before:
        return (), f"{after or 'it'} was the first release, so there is no earlier one to compare with"
    if before == after:
        return (), ""
    if before not in state.releases or after not in state.releases:
        missing = before if before not in state.releases else after or "its release"
        return (), f"the difference is unknown: {missing} is not recorded"
    try:
        versions = [released_version(installation, state, name) for name in (before, after)]
    except StreamkeeperError as error:
        return (), f"the difference is unknown: {error}"
    return find_differences(*versions), ""
