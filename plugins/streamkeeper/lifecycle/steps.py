"""The steps of a deploy, as one table: what each does, for how long, what happens when it cannot, and who takes it.

``decide`` goes along it, a dry run prints it, and tests hold the DAGs and docs/internals/architecture.md against it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from streamkeeper.lifecycle.review import reasons_to_review
from streamkeeper.model.job_state import UNKNOWN_RELEASE
from streamkeeper.model.journal import DesiredChanged
from streamkeeper.model.operation import OperationState
from streamkeeper.model.request import DeployRequest, Handover
from streamkeeper.model.step import Step
from streamkeeper.model.ways import Way

KILL_S = 30.0
"""How long the processes of a killed tree may take to disappear."""
STOP_S = 10.0
"""How long a driver that owns nothing may take to end when told so, before it is killed."""
HALTED_S = 5.0
"""How long a drain waits for a driver whose processes are stopped: somebody may be about to continue them."""
RESERVE_AFTER_S = 10.0
"""A candidate that has held by then needs no standby of the old release: most do, and a start costs processor time."""
_SNAPSHOT_S = 600.0
"""How long a snapshot may be tried again before the deploy goes on without it, or does not go on."""
_COMPARE_S = 300.0
"""How long two outputs may take to be compared over the same input."""
_AT_ONCE_S = 60.0
"""For what waits for nobody."""


def _is_opaque(operation: OperationState) -> bool:
    return any(way.opaque for way in operation.ways.values())


def _rebuilds(operation: OperationState) -> bool:
    return any(way.way is Way.REBUILD for way in operation.ways.values())


def _restores(operation: OperationState) -> bool:
    return any(way.way is Way.RESTORE for way in operation.ways.values())


class StepRow(msgspec.Struct, frozen=True):
    """One step. ``deadline``: seconds, or the field of the request that has them; ``otherwise``: what failing means.

    In what it ``does`` and in ``otherwise``, ``{serving}`` and the like stand for what ``_words`` says of a deploy.
    ``asked``: whether the request leaves it in; ``taken``: whether the verdict asks for it; ``first``: whether a job
    takes it that nothing serves yet.
    """

    step: Step
    does: str
    deadline: float | str
    otherwise: str
    asked: Callable[[DeployRequest], bool] = lambda request: True
    taken: Callable[[OperationState], bool] = lambda operation: True
    first: bool = False


_REFUSE = "end the candidate and refuse; {serving} stays"
_ABORT = "abort the dual run; {serving} stays"

STEPS = (
    StepRow(Step.BUNDLE, "{take_release}", _AT_ONCE_S, "refuse; nothing was touched", first=True),
    StepRow(Step.STANDBY, "{start_candidate}", "standby_s", "end the candidate and refuse", first=True),
    StepRow(
        Step.ASSESS,
        "{compare_candidate}",
        _AT_ONCE_S,
        "end the candidate and refuse, saying which ways there are not",
        first=True,
    ),
    StepRow(
        Step.KEEP_STATE,
        "BACKUP only: take a snapshot and export the state of every query with an opaque change",
        _SNAPSHOT_S,
        _REFUSE,
        taken=_is_opaque,
    ),
    StepRow(
        Step.APPROVE,
        "BACKUP only: stop the standby and wait for a person's approval",
        "approve_s",
        "not approved: refuse; {serving} stays",
        asked=lambda request: not request.accept_risk,
        taken=_is_opaque,
    ),
    StepRow(
        Step.READY,
        "BACKUP only: see that nothing has drifted since, and start the standby again",
        "standby_s",
        _REFUSE,
        asked=lambda request: not request.accept_risk,
        taken=_is_opaque,
    ),
    StepRow(
        Step.SHADOW,
        "rebuild only: let the candidate read the sources again into a new checkpoint version, unseen",
        "standby_s",
        _ABORT,
        taken=_rebuilds,
    ),
    StepRow(
        Step.CATCH_UP, "rebuild only: wait until it has read what {serving} has", "catch_up_s", _ABORT, taken=_rebuilds
    ),
    StepRow(
        Step.COMPARE,
        "rebuild only: compare both outputs over the same input, column by column",
        _COMPARE_S,
        "ask a person, as about whatever cannot be compared",
        asked=lambda request: request.compare,
        taken=_rebuilds,
    ),
    StepRow(
        Step.REVIEW,
        "rebuild only: wait for a person's approval where the outputs differ by more than was asked for,"
        " could not be compared, or come from changed code that nothing proves",
        "approve_s",
        f"not approved: {_ABORT}",
        taken=lambda operation: bool(reasons_to_review(operation)),
    ),
    StepRow(
        Step.DRAIN,
        "drain {serving} at a batch boundary",
        "drain_s",
        "end its whole process tree with SIGKILL; the open batch is replayed under its own id",
    ),
    StepRow(
        Step.PROVE_DEAD,
        "prove that no process of {serving}'s driver is left",
        KILL_S,
        "fail; the candidate is not let near the checkpoint",
    ),
    StepRow(
        Step.CATCH_UP_AFTER_DRAIN,
        "rebuild only: wait until the candidate holds everything up to the last batch of {serving}",
        "first_commit_s",
        "fall back to {serving}",
        taken=_rebuilds,
    ),
    StepRow(
        Step.RESTORE,
        "rollback to a snapshot only: restore it as a new checkpoint version",
        _SNAPSHOT_S,
        "fall back",
        taken=_restores,
    ),
    StepRow(
        Step.GO,
        "appoint the candidate; it claims the epoch, raises the fences and goes {where}",
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
        "take a snapshot of the last batch of {serving}, under a hold",
        _SNAPSHOT_S,
        "go on without it, and say so",
    ),
    StepRow(
        Step.PROBATION,
        "wait until every query has completed {batches} more triggers without an error",
        "probation_s",
        "{go_back}",
        first=True,
    ),
    StepRow(Step.PROMOTE, "record it as the serving release{though_stopped}", _AT_ONCE_S, "try again", first=True),
)
"""In their order; FALL_BACK, where one goes that cannot go on, is in no plan."""


def deadline_s(step: Step, request: DeployRequest) -> float:
    """How long a step may wait."""
    (deadline,) = (row.deadline for row in STEPS if row.step is step)
    return float(getattr(request, deadline)) if isinstance(deadline, str) else deadline


def path(operation: OperationState) -> tuple[Step, ...]:
    """The steps that this operation takes, as far as is known: what the verdict does not ask for is left out."""
    return tuple(row.step for row in STEPS if row.asked(operation.request) and row.taken(operation))


def current_step(operation: OperationState) -> Step:
    """The step that an open operation is at: the first on its path that is not done, or FALL_BACK once it gave up."""
    if operation.fall_back:
        return Step.FALL_BACK
    return next((step for step in path(operation) if not operation.has_done(step)), Step.PROMOTE)


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One announced step. ``deadline_s`` is how long it may wait; ``otherwise`` what happens when that is over."""

    step: Step
    does: str
    deadline_s: float
    otherwise: str


def plan_deploy(
    request: DeployRequest, *, serving: str, stopped: DesiredChanged | None = None
) -> tuple[PlannedStep, ...]:
    """The steps of this deploy; ``serving`` is the serving release's name, empty when there is none; ``stopped``: who
    has stopped the job, None where it is to serve.

    Those that only some verdicts ask for say so: which it will be is known once the candidate was assessed.
    """
    words = _words(request, serving, stopped)
    last = Step.ASSESS if request.dry_run else Step.PROMOTE
    return tuple(
        PlannedStep(
            step=row.step,
            does=row.does.format_map(words),
            deadline_s=deadline_s(row.step, request),
            otherwise=row.otherwise.format_map(words),
        )
        for row in STEPS
        if row.asked(request) and row.step <= last and (serving or row.first)
    )


def _words(request: DeployRequest, serving: str, stopped: DesiredChanged | None) -> dict[str, str]:
    """What the table says differently of one deploy and of another."""
    compare = f"compare it with {serving}" if serving else "there is no checkpoint yet: nothing to compare"
    if serving == UNKNOWN_RELEASE:
        compare = "look at the checkpoint that is there; what it was made by is on no record, so that a person is asked"
    starts = {
        Handover.WARM: "start the candidate beside the serving driver: session, plans, warm-up; it owns nothing",
        Handover.COLD: "describe and rehearse the candidate in a process that then ends; it starts after the old one",
    }
    by_the_way_back = "by the way back that was assessed"
    reserve = f"; past {RESERVE_AFTER_S:g} s, or at a failure, {serving} stands by until the probation is over"
    return {
        "serving": serving,
        "reserve": reserve if serving and request.handover is Handover.WARM and stopped is None else "",
        "take_release": _tell_source(request),
        "start_candidate": starts[request.handover],
        "compare_candidate": compare,
        "where": f"in {'the checkpoint versions that the verdict asks for' if serving else 'a new checkpoint version'}",
        "batches": str(request.probation_batches),
        "drain_and_go_back": f"drain it and let {serving} go again, {by_the_way_back}" if serving else _END_AND_FAIL,
        "go_back": f"fall back to {serving}, {by_the_way_back}" if serving else _END_AND_FAIL,
        "though_stopped": _tell_stopped(stopped) if stopped is not None else "",
    }


_END_AND_FAIL = "end it and fail"


def _tell_source(request: DeployRequest) -> str:
    if request.start:
        return f"take the release that served last, {request.release}"
    if request.rollback and not request.release:
        return "take the release that served before"
    source = f"take the pushed release {request.release}" if request.release else "bundle the code, register a release"
    return source + told_inherited(request)


def _tell_stopped(stopped: DesiredChanged) -> str:
    by = f"{stopped.requested_by or 'somebody'}{f' ({stopped.reason})' if stopped.reason else ''}"
    return f"; the job, which was stopped by {by}, is to serve again"


def told_inherited(request: DeployRequest) -> str:
    """ " with the params (…) of r0004": what it has from the release that serves, and what it leaves out."""
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
    told = f" with the {' and the '.join(kept)} of {request.inherited_from}" if kept else ""
    left = ", ".join(request.not_inherited)
    return f"{told}; without {left}, which the code does not declare any more" if left else told
