"""The steps of a deploy, as the values that a dry run prints and a deploy carries out."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from streamkeeper.model.journal import DeployRequest, Handover


class Step(IntEnum):
    """The steps of a deploy in their order; FALL_BACK is where one goes that cannot go on."""

    BUNDLE = 1
    STANDBY = 2
    ASSESS = 3
    DRAIN = 4
    PROVE_DEAD = 5
    GO = 6
    FIRST_COMMIT = 7
    BOUNDARY = 8
    STABLE = 9
    FALL_BACK = 10

    @property
    def label(self) -> str:
        """``first-commit``: the step's name in records, task ids and reports."""
        return self.name.lower().replace("_", "-")


FORWARD = tuple(step for step in Step if step is not Step.FALL_BACK)


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One announced step. ``deadline_s`` is how long it may wait; ``otherwise`` what happens when that is over."""

    step: Step
    does: str
    deadline_s: float
    otherwise: str


def plan_deploy(request: DeployRequest, *, serving: str) -> tuple[PlannedStep, ...]:
    """The steps of this deploy; ``serving`` is the serving release's name, empty when there is none."""
    steps = [_bundle(request), _standby(request), _assess(serving)]
    if request.dry_run:
        return tuple(steps)
    if serving:
        steps += [_drain(request, serving), _prove_dead(serving)]
    boundary = (_boundary(serving),) if serving else ()
    return (*steps, _go(request, serving), _first_commit(request, serving), *boundary, _stable())


def _bundle(request: DeployRequest) -> PlannedStep:
    source = f"take the pushed release {request.release}" if request.release else "bundle the code, register a release"
    return PlannedStep(step=Step.BUNDLE, does=source, deadline_s=60.0, otherwise="refuse; nothing was touched")


def _standby(request: DeployRequest) -> PlannedStep:
    match request.handover:
        case Handover.WARM:
            does = "start the candidate beside the serving driver: session, plans, warm-up; it owns nothing"
        case Handover.COLD:
            does = "describe the candidate in a short-lived process; it is started only after the old one has ended"
    return PlannedStep(
        step=Step.STANDBY, does=does, deadline_s=request.standby_s, otherwise="end the candidate and refuse"
    )


def _assess(serving: str) -> PlannedStep:
    does = f"compare it with {serving}" if serving else "there is no checkpoint yet: nothing to compare"
    return PlannedStep(
        step=Step.ASSESS, does=does, deadline_s=60.0, otherwise="end the candidate and refuse; only RESUME goes on"
    )


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


def _go(request: DeployRequest, serving: str) -> PlannedStep:
    where = "from the same checkpoint version" if serving else "in a new checkpoint version"
    return PlannedStep(
        step=Step.GO,
        does=f"appoint the candidate; it claims the epoch, raises the fences and goes {where}",
        deadline_s=request.standby_s,
        otherwise="fall back",
    )


def _first_commit(request: DeployRequest, serving: str) -> PlannedStep:
    back = f"drain it and let {serving} go again, forward from the last commit" if serving else "end it and fail"
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


def _stable() -> PlannedStep:
    return PlannedStep(
        step=Step.STABLE, does="record it as the serving release", deadline_s=60.0, otherwise="try again"
    )


KILL_S = 30.0
"""How long the processes of a killed tree may take to disappear."""

STOP_S = 10.0
"""How long a driver that owns nothing may take to end when told so, before it is killed."""

SNAPSHOT_S = 600.0
"""How long a snapshot of the boundary may be tried again before the deploy goes on without it."""
