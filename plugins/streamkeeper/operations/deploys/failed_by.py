"""Determine the kind of fault that made an operation fail, from its findings or from the records of its drivers."""

from __future__ import annotations

from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.manifests.finding import Severity
from streamkeeper.model.protocol.fault_kinds import Fault, read_fault
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import DriverObservation
from streamkeeper.registry.objects import read_assessment

_BY_RULE = {
    "source-no-longer-holds-offsets": Fault.SOURCE_LOST,
    "sink-ahead-of-checkpoint": Fault.SINK_AHEAD,
    "output-lost": Fault.OUTPUT_LOST,
    "checkpoint-lost": Fault.CHECKPOINT_LOST,
}
_FAILED = frozenset({Outcome.FAILED, Outcome.FELL_BACK})


def fault_of_operation(installation: Installation, state: JobState, operation: OperationState, outcome: Outcome) -> str:
    """Return the value of the ``Fault`` that made an operation fail; empty for an operation that did not fail."""
    if outcome not in _FAILED:
        return ""
    found = None if operation.has_begun(Step.DRAIN) else _of_findings(installation, state.job, operation)
    return (found or _of_drivers(installation, state, operation) or Fault.UNCLASSIFIED).value


def _of_findings(installation: Installation, job: str, operation: OperationState) -> Fault | None:
    if not operation.report:
        return None
    try:
        assessment = read_assessment(installation.store, job, operation.report)
    except StreamkeeperError:
        return None
    fatal = (
        finding.rule
        for query in assessment.queries.values()
        for finding in query.findings
        if finding.severity is Severity.FATAL
    )
    return next((_BY_RULE[rule] for rule in fatal if rule in _BY_RULE), None)


def _of_drivers(installation: Installation, state: JobState, operation: OperationState) -> Fault | None:
    mine = [each for each in state.instances.values() if each.operation == operation.operation]
    for instance in reversed(mine):
        driver = DriverObservation.of(installation, state, instance.instance)
        end, status = driver.exit, driver.readable_status
        for stored in (end.fault if end is not None else "", status.fault if status is not None else ""):
            if (found := read_fault(stored)) not in (None, Fault.UNCLASSIFIED):
                return found
    return None
