"""The steps of a deploy, as the values that a dry run prints and a deploy carries out."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from streamkeeper.lifecycle.review import reasons_to_review
from streamkeeper.model.job_state import UNKNOWN_RELEASE, OperationState
from streamkeeper.model.journal import DeployRequest, DesiredChanged, Handover
from streamkeeper.model.ways import Way


class Step(IntEnum):
    """The steps of a deploy in their order; FALL_BACK is where one goes that cannot go on."""

    BUNDLE = 1
    STANDBY = 2
    ASSESS = 3
    BACKUP = 4
    APPROVE = 5
    READY = 6
    SHADOW = 7
    CATCH_UP = 8
    COMPARE = 9
    REVIEW = 10
    DRAIN = 11
    PROVE_DEAD = 12
    REACH = 13
    RESTORE = 14
    GO = 15
    FIRST_COMMIT = 16
    BOUNDARY = 17
    PROBATION = 18
    STABLE = 19
    FALL_BACK = 20

    @property
    def label(self) -> str:
        """``first-commit``: the step's name in records, task ids and reports."""
        return self.name.lower().replace("_", "-")


FORWARD = tuple(step for step in Step if step is not Step.FALL_BACK)
_OPAQUE = frozenset({Step.BACKUP, Step.APPROVE, Step.READY})
_DUAL_RUN = frozenset({Step.SHADOW, Step.CATCH_UP, Step.COMPARE, Step.REACH})


def path(operation: OperationState) -> tuple[Step, ...]:
    """The steps that this operation takes, as far as is known: what the verdict does not ask for is left out."""
    ways = operation.ways.values()
    left_out: frozenset[Step] = frozenset()
    if not any(each.opaque for each in ways):
        left_out |= _OPAQUE
    elif operation.request.accept_risk:
        left_out |= {Step.APPROVE, Step.READY}
    if not any(each.way is Way.REBUILD for each in ways):
        left_out |= _DUAL_RUN
    elif not operation.request.compare:
        left_out |= {Step.COMPARE}
    if not reasons_to_review(operation):
        left_out |= {Step.REVIEW}
    if not any(each.way is Way.RESTORE for each in ways):
        left_out |= {Step.RESTORE}
    return tuple(step for step in FORWARD if step not in left_out)


def current_step(operation: OperationState) -> Step:
    """The step that an open operation is at: the first on its path that is not done, or FALL_BACK once it gave up."""
    if operation.fall_back:
        return Step.FALL_BACK
    return next((each for each in path(operation) if each.label not in operation.done), Step.STABLE)


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
    steps = [_bundle(request), _standby(request), _assess(serving)]
    if request.dry_run:
        return tuple(steps)
    if serving:
        steps += [*_opaque(request, serving), *_dual_run(request, serving)]
        steps += [_drain(request, serving), _prove_dead(serving), _reach(request, serving), _restore()]
    steps += [_go(request, serving), _first_commit(request, serving)]
    if serving:
        steps.append(_boundary(serving))
    return (*steps, _probation(request, serving), _stable(stopped))


def _bundle(request: DeployRequest) -> PlannedStep:
    source = f"take the pushed release {request.release}" if request.release else "bundle the code, register a release"
    source += told_inherited(request)
    if request.start:
        source = f"take the release that served last, {request.release}"
    if request.rollback and not request.release:
        source = "take the release that served before"
    return PlannedStep(step=Step.BUNDLE, does=source, deadline_s=60.0, otherwise="refuse; nothing was touched")


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


def _standby(request: DeployRequest) -> PlannedStep:
    match request.handover:
        case Handover.WARM:
            does = "start the candidate beside the serving driver: session, plans, warm-up; it owns nothing"
        case Handover.COLD:
            does = "describe and rehearse the candidate in a process that then ends; it starts after the old one"
    return PlannedStep(
        step=Step.STANDBY, does=does, deadline_s=request.standby_s, otherwise="end the candidate and refuse"
    )


def _assess(serving: str) -> PlannedStep:
    does = f"compare it with {serving}" if serving else "there is no checkpoint yet: nothing to compare"
    if serving == UNKNOWN_RELEASE:
        does = "look at the checkpoint that is there; what it was made by is on no record, so that a person is asked"
    otherwise = "end the candidate and refuse, saying which ways there are not"
    return PlannedStep(step=Step.ASSESS, does=does, deadline_s=60.0, otherwise=otherwise)


def _opaque(request: DeployRequest, serving: str) -> list[PlannedStep]:
    untouched = f"end the candidate and refuse; {serving} stays"
    backup = PlannedStep(
        step=Step.BACKUP,
        does="BACKUP only: take a snapshot and export the state of every query with an opaque change",
        deadline_s=SNAPSHOT_S,
        otherwise=untouched,
    )
    if request.accept_risk:
        return [backup]
    return [
        backup,
        PlannedStep(
            step=Step.APPROVE,
            does="BACKUP only: stop the standby and wait for a person's approval",
            deadline_s=request.approve_s,
            otherwise=f"not approved: refuse; {serving} stays",
        ),
        PlannedStep(
            step=Step.READY,
            does="BACKUP only: see that nothing has drifted since, and start the standby again",
            deadline_s=request.standby_s,
            otherwise=untouched,
        ),
    ]


def _dual_run(request: DeployRequest, serving: str) -> list[PlannedStep]:
    abort = f"abort the dual run; {serving} serves on as if nothing had been"
    shadow = PlannedStep(
        step=Step.SHADOW,
        does="rebuild only: let the candidate read the sources again into a new checkpoint version, unseen",
        deadline_s=request.standby_s,
        otherwise=abort,
    )
    catch_up = PlannedStep(
        step=Step.CATCH_UP,
        does=f"rebuild only: wait until it has read what {serving} has",
        deadline_s=request.catch_up_s,
        otherwise=abort,
    )
    compare = PlannedStep(
        step=Step.COMPARE,
        does="rebuild only: compare both outputs over the same input, column by column",
        deadline_s=COMPARE_S,
        otherwise="ask a person, as about whatever cannot be compared",
    )
    review = PlannedStep(
        step=Step.REVIEW,
        does="rebuild only: wait for a person's approval where the outputs differ by more than was asked for,"
        " could not be compared, or come from changed code that nothing proves",
        deadline_s=request.approve_s,
        otherwise=f"not approved: {abort}",
    )
    return [shadow, catch_up, *([compare] if request.compare else []), review]


def _drain(request: DeployRequest, serving: str) -> PlannedStep:
    return PlannedStep(
        step=Step.DRAIN,
        does=f"drain {serving} at a batch boundary",
        deadline_s=request.drain_s,
        otherwise="end its whole process tree with SIGKILL; the open batch is replayed under its own id",
    )


def _prove_dead(serving: str) -> PlannedStep:
    return PlannedStep(
        step=Step.PROVE_DEAD,
        does=f"prove that no process of {serving}'s driver is left",
        deadline_s=KILL_S,
        otherwise="fail; the candidate is not let near the checkpoint",
    )


def _reach(request: DeployRequest, serving: str) -> PlannedStep:
    return PlannedStep(
        step=Step.REACH,
        does=f"rebuild only: wait until the candidate holds everything up to the last batch of {serving}",
        deadline_s=request.first_commit_s,
        otherwise=f"fall back to {serving}",
    )


def _restore() -> PlannedStep:
    return PlannedStep(
        step=Step.RESTORE,
        does="rollback to a snapshot only: restore it as a new checkpoint version",
        deadline_s=SNAPSHOT_S,
        otherwise="fall back",
    )


def _go(request: DeployRequest, serving: str) -> PlannedStep:
    where = "in the checkpoint versions that the verdict asks for" if serving else "in a new checkpoint version"
    return PlannedStep(
        step=Step.GO,
        does=f"appoint the candidate; it claims the epoch, raises the fences and goes {where}",
        deadline_s=request.standby_s,
        otherwise="fall back",
    )


def _first_commit(request: DeployRequest, serving: str) -> PlannedStep:
    back = f"drain it and let {serving} go again, by the way back that was assessed" if serving else "end it and fail"
    return PlannedStep(
        step=Step.FIRST_COMMIT,
        does="wait until every query has completed its first trigger",
        deadline_s=request.first_commit_s,
        otherwise=back,
    )


def _boundary(serving: str) -> PlannedStep:
    return PlannedStep(
        step=Step.BOUNDARY,
        does=f"take a snapshot of the last batch of {serving}, under a hold",
        deadline_s=SNAPSHOT_S,
        otherwise="go on without it, and say so",
    )


def _probation(request: DeployRequest, serving: str) -> PlannedStep:
    back = f"fall back to {serving}, by the way back that was assessed" if serving else "end it and fail"
    return PlannedStep(
        step=Step.PROBATION,
        does=f"wait until every query has completed {request.probation_batches} more triggers without an error",
        deadline_s=request.probation_s,
        otherwise=back,
    )


def _stable(stopped: DesiredChanged | None) -> PlannedStep:
    does = "record it as the serving release"
    if stopped is not None:
        by = f"{stopped.requested_by or 'somebody'}{f' ({stopped.reason})' if stopped.reason else ''}"
        does += f"; the job, which was stopped by {by}, is to serve again"
    return PlannedStep(step=Step.STABLE, does=does, deadline_s=60.0, otherwise="try again")


KILL_S = 30.0
"""How long the processes of a killed tree may take to disappear."""

STOP_S = 10.0
"""How long a driver that owns nothing may take to end when told so, before it is killed."""

SNAPSHOT_S = 600.0
"""How long a snapshot may be tried again before the deploy goes on without it, or does not go on."""

COMPARE_S = 300.0
"""How long two outputs may take to be compared over the same input."""
