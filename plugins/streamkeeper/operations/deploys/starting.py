"""Start a job: its last current release continues from its checkpoints.

A start is a deploy of that release, with the proofs and records of a deploy. The desired state is recorded first, so
that an interrupted start is continued later. No query starts from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable

from streamkeeper.errors import OperationOpen, OperationRefused
from streamkeeper.model.names import check_instance
from streamkeeper.model.protocol.driver_messages import CommandKind
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import DesiredChanged, Record
from streamkeeper.model.requests.request import DeployRequest, Handover, StartCurrent, Strategy
from streamkeeper.operations.deploys.deaths import must_not_be_shared
from streamkeeper.operations.deploys.deploy import Deploy, OnOpen
from streamkeeper.operations.jobs.forgetting import must_not_be_forgotten
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import DriverObservation, on_record
from streamkeeper.operations.jobs.outdated import must_not_be_outdated_as_far_as_seen
from streamkeeper.operations.jobs.placement import check_placement
from streamkeeper.operations.jobs.registered import must_know_commits
from streamkeeper.system.crash_points import crash_point

FIRST_COMMIT_S = 1800.0
"""Time limit in seconds for the first commit. It is longer than in a deploy, because the first batch after an outage
may be large.
"""


def open_start(
    installation: Installation,
    job: str,
    *,
    requested_by: str,
    reason: str,
    operation: str,
    unless_stopped: bool = False,
    handover: Handover = Handover.WARM,
    on_open: OnOpen = OnOpen.REFUSE,
) -> Deploy | None:
    """Record that the job should run, and return the start operation; None if the job is already running.

    ``requested_by`` and ``reason``: of the request; ``operation``: a new id, or that of an earlier start to continue;
    ``unless_stopped``: for automatic starts, leave a stopped job stopped; ``handover``: COLD first starts a driver that
    only describes the queries; ``on_open``: CONTINUE continues another open operation if it is also a start.

    Raises NotFound, OperationOpen, JournalOutdated and WrongMachine. Raises OperationRefused for a job without a
    current release, for a stopped job with ``unless_stopped``, and if no machine can observe the job's driver.
    """
    journal = installation.journal(job, f"start:{operation}")
    state = on_record(installation, journal.state())
    check_instance(operation)
    if operation in state.operations:
        return Deploy.load(installation, job, operation)
    other = state.open_operation
    if other is not None and isinstance(other.request.kind, StartCurrent) and on_open is OnOpen.CONTINUE:
        return Deploy.load(installation, job, other.operation)
    _must_be_possible(state, unless_stopped=unless_stopped)
    check_placement(installation, state)
    must_not_be_shared(installation, state)
    must_not_be_outdated_as_far_as_seen(installation, state)
    if state.stopped is None and _serves(installation, state):
        return None
    must_know_commits(installation, state)
    crash_point("start.record.before")
    state = journal.append(_wish(operation, requested_by, reason, unless_stopped=unless_stopped))
    crash_point("start.record.after")
    request = DeployRequest(
        job=job,
        release=state.serving_release,
        strategy=Strategy.RESUME,
        handover=handover,
        reason=reason,
        requested_by=requested_by,
        first_commit_s=FIRST_COMMIT_S,
        # The release is not new and has passed its probation.
        probation_batches=0,
    ).of_kind(StartCurrent())

    def allowed(now: JobState) -> None:
        _must_be_possible(now, unless_stopped=True)
        if now.serving_release != request.release:
            raise OperationRefused(
                f"{now.serving_release} is now the current release, not {request.release}", hint="start the job again"
            )

    return Deploy.open(installation, operation, request, allowed=allowed)


def _must_be_possible(state: JobState, *, unless_stopped: bool) -> None:
    if state.open_operation is not None:
        raise OperationOpen(state.job, state.open_operation.operation)
    must_not_be_forgotten(state)
    if not state.serving_release:
        before = f"was {state.rebuilt.sentence}" if state.rebuilt is not None else "never had a current release"
        raise OperationRefused(f"job {state.job} {before}: there is no release to start", hint="deploy the job")
    if unless_stopped and state.stopped is not None:
        by = state.stopped.requested_by or "an unknown user"
        raise OperationRefused(f"job {state.job} was stopped by {by}", hint=f"run `streamkeeper start {state.job}`")


def _wish(
    operation: str, requested_by: str, reason: str, *, unless_stopped: bool
) -> Callable[[JobState], Record | None]:
    def wanted(state: JobState) -> Record | None:
        _must_be_possible(state, unless_stopped=unless_stopped)
        if state.stopped is None:
            return None
        return DesiredChanged(serve=True, requested_by=requested_by, reason=reason, operation=operation)

    return wanted


def _serves(installation: Installation, state: JobState) -> bool:
    """Whether a driver is running and was not ordered to stop; raises OperationRefused if the driver cannot be
    observed.
    """
    instance = state.serving_instance
    driver = DriverObservation.of(installation, state, instance)
    seen = driver.liveness
    if driver.exit is not None or seen.life in (Life.DEAD, Life.ABSENT):
        return False
    if seen.life is Life.UNKNOWN:
        raise OperationRefused(
            f"driver {instance} of job {state.job} cannot be observed from here: {seen.why}",
            hint="start the job where its driver can be observed. If the driver's machine is permanently lost, run"
            f" `streamkeeper state-dead {state.job} {instance} --reason …`",
        )
    ends = (CommandKind.DRAIN, CommandKind.STOP)
    return not any(command.kind in ends for command in driver.commands)
