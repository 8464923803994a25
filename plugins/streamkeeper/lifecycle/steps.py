"""The table of a deploy's steps: the action, the duration, the consequence of a failure, and the operations that
include the step.

``decide`` follows the table, a dry run prints it, and tests compare the DAGs and docs/internals/architecture.md with
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from streamkeeper.lifecycle.review import reasons_to_review
from streamkeeper.model.records.job_state import UNKNOWN_RELEASE
from streamkeeper.model.records.journal_records import DesiredChanged
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import Transition
from streamkeeper.model.requests.diagnosis import Recovery
from streamkeeper.model.requests.request import DeployRequest, Handover, Rollback, StartCurrent

KILL_S = 30.0
"""Seconds that the processes of a killed tree may take to disappear."""
STOP_S = 10.0
"""Seconds that a driver that owns nothing may take to stop on command, before it is killed."""
HALTED_S = 5.0
"""Seconds that a drain waits for a driver whose processes are stopped (SIGSTOP), in case a person continues them."""
RESERVE_AFTER_S = 10.0
"""Seconds after which a standby of the old release is started. Most candidates need less; a start costs CPU time."""
_SNAPSHOT_S = 600.0
"""Seconds in which a snapshot may be retried before the deploy continues without it, or gives up."""
_COMPARE_S = 300.0
"""Seconds that a comparison of two outputs over the same input may take."""
_AT_ONCE_S = 60.0
"""Seconds that a step may take if it does not wait for any external event."""


def _must_be_approved(operation: OperationState) -> bool:
    return any(way.opaque or way.other_topics for way in operation.transitions.values())


def _rebuilds(operation: OperationState) -> bool:
    return bool(operation.rebuilt)


def _restores(operation: OperationState) -> bool:
    return any(way.way is Transition.RESTORE for way in operation.transitions.values())


class StepRow(msgspec.Struct, frozen=True):
    """One row of the table of steps. ``_words`` replaces names such as ``{serving}`` in ``does`` and ``otherwise``."""

    step: Step
    """The step."""
    does: str
    """Its action, for a person."""
    deadline: float | str
    """The deadline in seconds, or the name of the request's field that contains it."""
    otherwise: str
    """The consequence of a failure, for a person."""
    condition: str = ""
    """When an operation takes the step, for a person; empty if it always takes the step."""
    asked: Callable[[DeployRequest], bool] = lambda request: True
    """Whether the request includes it."""
    taken: Callable[[OperationState], bool] = lambda operation: True
    """Whether the verdict requires it."""
    first: bool = False
    """Whether a job without a current release takes it."""


_REFUSE = "end the candidate and refuse; {serving} stays"
_ABORT = "abort the dual run; {serving} stays"

STEPS = (
    StepRow(Step.BUNDLE, "{take_release}", _AT_ONCE_S, "refuse; the job is unchanged", first=True),
    StepRow(Step.STANDBY, "{start_candidate}", "standby_s", "end the candidate and refuse", first=True),
    StepRow(
        Step.ASSESS,
        "{compare_candidate}",
        _AT_ONCE_S,
        "end the candidate and refuse; the reason lists the strategies that are not possible",
        first=True,
    ),
    StepRow(
        Step.KEEP_STATE,
        "take a snapshot and export the state of every query with an opaque change",
        _SNAPSHOT_S,
        _REFUSE,
        condition="only if an approval is needed",
        taken=_must_be_approved,
    ),
    StepRow(
        Step.APPROVE,
        "stop the standby and wait for a person's approval",
        "approve_s",
        "not approved: refuse; {serving} stays",
        condition="only if an approval is needed",
        asked=lambda request: not request.accept_risk,
        taken=_must_be_approved,
    ),
    StepRow(
        Step.READY,
        "check that the installation has not changed since the assessment, and restart the standby",
        "standby_s",
        _REFUSE,
        condition="only if an approval is needed",
        asked=lambda request: not request.accept_risk,
        taken=_must_be_approved,
    ),
    StepRow(
        Step.SHADOW,
        "start the dual run: the candidate rereads the sources into a new checkpoint version and an unpublished output",
        "standby_s",
        _ABORT,
        condition="rebuild only",
        taken=_rebuilds,
    ),
    StepRow(
        Step.CATCH_UP,
        "wait until the candidate has read all that {serving} has read",
        "catch_up_s",
        _ABORT,
        condition="rebuild only",
        taken=_rebuilds,
    ),
    StepRow(
        Step.COMPARE,
        "compare both outputs over the same input, column by column",
        _COMPARE_S,
        "ask a person to approve, as for any output that cannot be compared",
        condition="rebuild only",
        asked=lambda request: request.compare,
        taken=_rebuilds,
    ),
    StepRow(
        Step.REVIEW,
        "wait for a person's approval if the outputs differ by more than the request allows,"
        " could not be compared, or come from changed code of unproven effect",
        "approve_s",
        f"not approved: {_ABORT}",
        condition="rebuild only",
        taken=lambda operation: bool(reasons_to_review(operation)),
    ),
    StepRow(
        Step.DRAIN,
        "drain {serving} at a batch boundary",
        "drain_s",
        "kill its whole process tree (SIGKILL); the open batch is replayed under the same id",
    ),
    StepRow(
        Step.PROVE_DEAD,
        "prove that no process of {serving}'s driver is left",
        KILL_S,
        "fail; the candidate does not get the checkpoint",
    ),
    StepRow(
        Step.CATCH_UP_AFTER_DRAIN,
        "wait until the candidate has processed all input up to the last batch of {serving}",
        "first_commit_s",
        "fall back to {serving}",
        condition="rebuild only",
        taken=_rebuilds,
    ),
    StepRow(
        Step.RESTORE,
        "restore the snapshot as a new checkpoint version",
        _SNAPSHOT_S,
        "fall back",
        condition="restore only",
        taken=_restores,
    ),
    StepRow(
        Step.GO,
        "appoint the candidate; it claims the epoch, raises the fences and starts {where}",
        "standby_s",
        "fall back",
        first=True,
    ),
    StepRow(
        Step.FIRST_COMMIT,
        "wait until every query has completed its first trigger{reserve}",
        "first_commit_s",
        "{drain_and_go_back}",
        first=True,
    ),
    StepRow(
        Step.SNAPSHOT,
        "take a snapshot of the last batch of {serving}, protected from pruning",
        _SNAPSHOT_S,
        "continue without it, and report that",
    ),
    StepRow(
        Step.PROBATION,
        "wait until every query has completed {batches} more triggers",
        "probation_s",
        "{go_back}",
        first=True,
    ),
    StepRow(Step.PROMOTE, "record it as the current release{though_stopped}", _AT_ONCE_S, "retry", first=True),
)
"""The steps, in their order. No plan contains FALL_BACK, the step of an operation that cannot continue."""


def deadline_s(step: Step, request: DeployRequest) -> float:
    """Return the seconds that a step may wait."""
    (deadline,) = (row.deadline for row in STEPS if row.step is step)
    return float(getattr(request, deadline)) if isinstance(deadline, str) else deadline


def path(operation: OperationState) -> tuple[Step, ...]:
    """Return the steps of this operation that are known so far, without the steps that the verdict does not require."""
    return tuple(row.step for row in STEPS if _is_on_path(row, operation))


def _is_on_path(row: StepRow, operation: OperationState) -> bool:
    return row.asked(operation.request) and row.taken(operation)


def current_step(operation: OperationState) -> Step:
    """Return the step of an open operation: the first step on its path that is not done.

    Return FALL_BACK once the operation has given up its candidate.
    """
    if operation.fall_back:
        return Step.FALL_BACK
    undone = (row for row in STEPS if not operation.has_done(row.step))
    return next((row.step for row in undone if _is_on_path(row, operation)), Step.PROMOTE)


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One announced step."""

    step: Step
    """The step."""
    does: str
    """Its action, for a person."""
    deadline_s: float
    """Seconds that it may wait."""
    otherwise: str
    """The consequence of missing the deadline, for a person."""


def plan_deploy(
    request: DeployRequest, *, serving: str, stopped: DesiredChanged | None = None
) -> tuple[PlannedStep, ...]:
    """Return every step that this operation may take, as announced before its verdict is known.

    ``serving``: name of the current release, empty if there is none.
    ``stopped``: the record of the job's stop, None if the job should run.

    A step that only some verdicts require starts with its condition.
    """
    words = _words(request, serving, stopped)
    last = Step.ASSESS if request.dry_run else Step.PROMOTE
    return tuple(
        _planned(row, request, words, condition=row.condition)
        for row in STEPS
        if row.asked(request) and row.step <= last and (serving or row.first)
    )


def plan_assessed(
    operation: OperationState, *, serving: str, stopped: DesiredChanged | None = None
) -> tuple[PlannedStep, ...]:
    """Return the steps that the real run of an assessed operation takes; a dry run prints them.

    ``serving`` and ``stopped``: as for ``plan_deploy``. If the operation has yet to compare outputs, the steps include
    a review, because the comparison may require one.
    """
    request = msgspec.structs.replace(operation.request, dry_run=False)
    words = _words(request, serving, stopped)
    taken = set(path(operation))
    if Step.COMPARE in taken and not operation.has_done(Step.COMPARE):
        taken.add(Step.REVIEW)
    return tuple(_planned(row, request, words) for row in STEPS if row.step in taken and (serving or row.first))


def _planned(row: StepRow, request: DeployRequest, words: Mapping[str, str], *, condition: str = "") -> PlannedStep:
    does = row.does.format_map(words)
    return PlannedStep(
        step=row.step,
        does=f"{condition}: {does}" if condition else does,
        deadline_s=deadline_s(row.step, request),
        otherwise=row.otherwise.format_map(words),
    )


def _words(request: DeployRequest, serving: str, stopped: DesiredChanged | None) -> dict[str, str]:
    """Return the parts of the table's texts that depend on the deploy."""
    compare = f"compare it with {serving}" if serving else "no comparison: there is no checkpoint yet"
    if request.recovery is not None:
        compare = "check it against its checkpoints"
    if serving == UNKNOWN_RELEASE:
        compare = "check the existing checkpoint; the code that wrote it is not recorded, so a person must approve"
    starts = {
        Handover.WARM: "start the candidate next to the serving driver: session, plans, warm-up; it owns no checkpoint",
        Handover.COLD: "describe and rehearse the candidate in a process that ends; start it after the old driver ends",
    }
    by_the_way_back = "by the assessed rollback path"
    reserve = f"; past {RESERVE_AFTER_S:g} s, or on a failure, {serving} is on standby until the probation is over"
    return {
        "serving": serving,
        "reserve": reserve if serving and request.handover is Handover.WARM and stopped is None else "",
        "take_release": _tell_source(request),
        "start_candidate": starts[request.handover],
        "compare_candidate": compare,
        "where": f"in {'the checkpoint versions that the verdict asks for' if serving else 'a new checkpoint version'}",
        "batches": str(request.probation_batches),
        "drain_and_go_back": f"drain it and restart {serving}, {by_the_way_back}" if serving else _END_AND_FAIL,
        "go_back": f"fall back to {serving}, {by_the_way_back}" if serving else _END_AND_FAIL,
        "though_stopped": _tell_stopped(stopped) if stopped is not None else "",
    }


_END_AND_FAIL = "end it and fail"


def _tell_source(request: DeployRequest) -> str:
    match request.kind:
        case Recovery() | StartCurrent():
            return f"take the current release, {request.release}"
        case Rollback() if not request.release:
            return "take the release before the current one"
    source = f"take the pushed release {request.release}" if request.release else "bundle the code, register a release"
    return source + told_inherited(request)


def _tell_stopped(stopped: DesiredChanged) -> str:
    by = f"{stopped.requested_by or 'an unknown user'}{f' ({stopped.reason})' if stopped.reason else ''}"
    return f"; the job, stopped by {by}, runs again"


def told_inherited(request: DeployRequest) -> str:
    """Return a phrase about the params and conf that a request inherits, such as " with the params (…) of r0004".

    It also names params that are not inherited, because the code no longer declares them. The phrase is empty if there
    are no such values.
    """
    if not request.inherited_from:
        return ""
    kept = [
        f"{kind} ({', '.join(sorted(names))})"
        for kind, names, inherits in (
            ("params", request.params, request.inherit_params),
            ("conf", request.conf, request.inherit_conf),
        )
        if inherits and names
    ]
    kept_text = f" with the {' and the '.join(kept)} of {request.inherited_from}" if kept else ""
    left = ", ".join(request.not_inherited)
    return f"{kept_text}; without {left}, which the code no longer declares" if left else kept_text
