"""What an operation was assessed as, and how its code differs from what served when it was begun."""

from __future__ import annotations

import msgspec

from streamkeeper.compatibility.differences import Difference, find_differences
from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.finding import Assessment
from streamkeeper.model.job_state import JobState
from streamkeeper.model.operation import OperationState
from streamkeeper.model.ways import QueryWay
from streamkeeper.operations.installation import Installation
from streamkeeper.operations.job_facts import release_of
from streamkeeper.operations.job_versions import released_version
from streamkeeper.operations.operation_record import served_before
from streamkeeper.registry.objects import read_assessment


class OperationFindings(msgspec.Struct, frozen=True, kw_only=True):
    """``decision``: the verdict and what the operation made of it; ``before``: the release that served when it was
    begun, empty where none did; ``undiffered``: why ``differences`` are not known, in one sentence.
    """

    operation: str
    release: str
    before: str
    decision: str
    refusal: str
    assessment: Assessment
    ways: dict[str, QueryWay]
    differences: tuple[Difference, ...] = ()
    undiffered: str = ""


def last_assessed(state: JobState) -> OperationState | None:
    """The newest operation that has a report."""
    assessed = (operation for operation in state.operations.values() if operation.report)
    return max(assessed, key=lambda operation: operation.started, default=None)


def read_findings(site: Installation, state: JobState, operation: OperationState) -> OperationFindings:
    """Of an operation that was assessed; raises RegistryDamaged, FormatTooNew, StoreUnavailable."""
    before = served_before(state, operation)
    differences, undiffered = _differences(site, state, before, release_of(operation))
    return OperationFindings(
        operation=operation.operation,
        release=release_of(operation),
        before=before,
        decision=operation.verdict_sentence,
        refusal=operation.refusal,
        assessment=read_assessment(site.store, state.job, operation.report),
        ways=dict(operation.ways),
        differences=differences,
        undiffered=undiffered,
    )


def _differences(site: Installation, state: JobState, before: str, after: str) -> tuple[tuple[Difference, ...], str]:
    if not before:
        return (), f"{after or 'it'} was the first release: there is no earlier one to compare with"
    if before == after:
        return (), ""
    if before not in state.releases or after not in state.releases:
        missing = before if before not in state.releases else after or "its release"
        return (), f"the difference is unknown: {missing} is not recorded"
    try:
        versions = [released_version(site, state, name) for name in (before, after)]
    except StreamkeeperError as error:
        return (), f"the difference is unknown: {error}"
    return find_differences(*versions), ""
