"""Decisions that stop drivers: drain the checkpoint's owner, prove its termination, stop unneeded instances."""

from __future__ import annotations

from streamkeeper.lifecycle.actions import (
    Decision,
    Finish,
    Kill,
    MarkBegun,
    MarkDone,
    RecordEnd,
    RecordLastBatches,
    Send,
    Wait,
)
from streamkeeper.lifecycle.decision_input import Observation
from streamkeeper.lifecycle.instances import candidate_of, give_up, kill_wait, make_decision, not_yet, ready, shadows
from streamkeeper.lifecycle.steps import HALTED_S, KILL_S, STOP_S, deadline_s
from streamkeeper.model.protocol.driver_messages import CommandKind
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.records.job_state import InstanceState
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.request import Handover


def drain(observation: Observation) -> Decision:
    """Return the next decision for draining every driver that owns a checkpoint.

    In a warm handover, the drain begins only after the candidate is on standby or fills a shadow. If a driver with a
    checkpoint cannot be observed from here, the decision is to give up.
    """
    step, operation = Step.DRAIN, observation.operation
    owners = observation.state.owners
    if not owners:
        return make_decision(step, MarkDone(), "no driver owns the checkpoints")
    for owner in owners:
        if observation.of(owner.instance).life is Life.UNKNOWN:
            return give_up(step, _unprovable(observation, owner))
    if not operation.has_begun(step):
        candidate = candidate_of(operation)
        if operation.request.handover is Handover.WARM and not shadows(observation, candidate):
            unready = ready(observation, step, candidate)
            if unready is not None:
                return unready
        return make_decision(step, MarkBegun(), "the current driver is about to be drained")
    for owner in owners:
        ending = _drain_one(observation, step, owner, deadline_s(step, operation.request))
        if ending is not None:
            return ending
    return make_decision(step, MarkDone(), "the current driver has ended")


def prove_dead(observation: Observation) -> Decision:
    """Return the next decision for the drivers that owned a checkpoint: to record a proven termination, to kill a
    driver, to wait, or to give up.

    Once the termination of each of them is recorded, return the decision to record the last batches.
    """
    step = Step.PROVE_DEAD
    for owner in observation.state.owners:
        seen = observation.of(owner.instance)
        if seen.life in (Life.DEAD, Life.ABSENT):
            return make_decision(step, record_of(owner.instance, seen), seen.why)
        if _unkillable(observation, owner.instance) or (observation.waited_s > KILL_S and seen.life is Life.UNKNOWN):
            return give_up(step, _unprovable(observation, owner))
        if seen.life is Life.ALIVE:
            return make_decision(step, Kill(owner.instance), f"{owner.instance} has processes left")
        return make_decision(step, Wait(f"{owner.instance}: proof of death", KILL_S), seen.why)
    return make_decision(step, RecordLastBatches(), "no driver owns the checkpoints")


def end(observation: Observation, step: Step, name: str) -> Decision | None:
    """Return the next decision for terminating an instance of this operation.

    The decisions are, in this order: send a command, wait, kill the instance, and record its termination. If the
    termination cannot be proven from here, the decision is to finish the operation as failed.
    """
    instance, seen = observation.state.instances[name], observation.of(name)
    patience_s, order = (STOP_S * 3, CommandKind.DRAIN) if instance.appointed else (STOP_S, CommandKind.STOP)
    if seen.life in (Life.DEAD, Life.ABSENT):
        return make_decision(step, record_of(name, seen), seen.why)
    if seen.life is Life.UNKNOWN or _unkillable(observation, name):
        before = f"{observation.operation.fall_back}; and " if observation.operation.fall_back else ""
        return make_decision(step, Finish(Outcome.FAILED), before + _unprovable(observation, instance))
    if order not in seen.sent:
        return make_decision(step, Send(name, order), f"{name} is no longer needed")
    if observation.waited_s > patience_s or _killing(observation, name):
        return make_decision(step, Kill(name), f"{name} did not end within {patience_s:g} s")
    return make_decision(step, Wait(f"{name}: end", patience_s), f"waiting for {name} to end")


def gathered(observation: Observation, step: Step, name: str) -> Decision | None:
    """Return the next decision about an instance that only gathers evidence (role DESCRIBER): to wait, to stop it, or
    to give up.

    Return None once the instance has gathered its evidence and its termination is recorded.
    """
    if not observation.state.instances[name].ended:
        if not observation.of(name).gathered:
            return not_yet(observation, step, name, "evidence")
        return end(observation, step, name)
    return None if observation.of(name).gathered else give_up(step, f"{name} ended before it had gathered its evidence")


def record_of(name: str, seen: ObservedDriver) -> RecordEnd:
    """Return the action that records the termination of an instance without processes, with its last reported state."""
    last = seen.state.value if seen.state is not None else "without a word"
    fault = seen.ended_by.value if seen.ended_by is not None else ""
    return RecordEnd(name, seen.why, last, fault, unclaimed=seen.life is Life.ABSENT)


def _drain_one(observation: Observation, step: Step, owner: InstanceState, patience_s: float) -> Decision | None:
    """Return the decision to drain, wait for, kill or give up the owner; None once no process of the owner is left."""
    name, seen = owner.instance, observation.of(owner.instance)
    if seen.life is Life.DEAD:
        return None
    if seen.life is Life.UNKNOWN:
        lost = Wait(f"{name}: drain", KILL_S)
        return (
            give_up(step, _unprovable(observation, owner))
            if observation.waited_s > KILL_S
            else make_decision(step, lost, seen.why)
        )
    if CommandKind.DRAIN not in seen.sent:
        return make_decision(step, Send(name, CommandKind.DRAIN), f"{owner.release} hands over")
    if seen.halted:
        patience_s = min(patience_s, HALTED_S)
    if observation.waited_s > patience_s or _killing(observation, name):
        if _unkillable(observation, name):
            return give_up(step, _unprovable(observation, owner))
        return make_decision(step, Kill(name), undrained(name, seen, patience_s))
    return make_decision(step, Wait(f"{name}: drain", patience_s), f"{name} finishes its batch")


def undrained(name: str, seen: ObservedDriver, waited_s: float) -> str:
    """Return why a driver has to be killed although it was ordered to drain."""
    if seen.halted:
        return f"{name} cannot drain, because its processes are stopped: {seen.why}"
    return f"{name} did not drain within {waited_s:g} s"


def _unprovable(observation: Observation, owner: InstanceState) -> str:
    why = observation.of(owner.instance).why
    return f"driver {owner.instance} of {owner.release} cannot be proven dead from here: {why}"


def _killing(observation: Observation, name: str) -> bool:
    return observation.on == kill_wait(name)


def _unkillable(observation: Observation, name: str) -> bool:
    return _killing(observation, name) and observation.waited_s > KILL_S
