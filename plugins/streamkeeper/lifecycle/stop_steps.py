"""Decisions that stop a job: drain every owner, prove its termination, record its termination. Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streamkeeper.lifecycle.actions import Kill, RecordEnd, Send, Wait
from streamkeeper.lifecycle.draining import record_of, undrained
from streamkeeper.lifecycle.instances import kill_wait
from streamkeeper.lifecycle.steps import HALTED_S, KILL_S
from streamkeeper.model.protocol.driver_messages import CommandKind
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.observed_driver import NEVER_STARTED, ObservedDriver
from streamkeeper.model.records.job_state import InstanceState, JobState


class Stopped(msgspec.Struct, frozen=True):
    """The stop is complete, because no process of the job is left."""


class TakenOver(msgspec.Struct, frozen=True):
    """The stop is abandoned: a request or operation that was recorded after the stop determines which driver runs."""


class Unprovable(msgspec.Struct, frozen=True):
    """The stop cannot continue, because a driver's termination cannot be proven from here."""


class StopDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The next action of a stop, and the reason."""

    action: Send | Kill | RecordEnd | Wait | Stopped | TakenOver | Unprovable
    reason: str


class StopView(msgspec.Struct, frozen=True, kw_only=True):
    """The complete input for deciding the next action of a stop."""

    state: JobState
    """The job, as its journal records it."""
    stop: str
    """The id under which the stop is recorded."""
    seen: Mapping[str, ObservedDriver]
    """Instance -> its observation, for every owner."""
    drain_s: float
    """Seconds after which a draining driver is killed."""
    on: str = ""
    """The name of the present wait; empty outside of one."""
    waited_s: float = 0.0
    """Seconds since the present wait started."""


def decide_stop(view: StopView) -> StopDecision:
    """Return the next action: drain an owner, wait, kill it after the deadline, or record its proven termination.

    ``Stopped``, ``TakenOver`` and ``Unprovable`` are the actions that complete or abandon the stop.
    """
    stopped, operation = view.state.stopped, view.state.open_operation
    if stopped is None or stopped.operation != view.stop:
        return _say(TakenOver(), "a later request replaced this one")
    if operation is not None:
        return _say(TakenOver(), f"operation {operation.operation} was started later, and decides which release serves")
    for owner in view.state.owners:
        return _end(view, owner)
    return _say(Stopped(), f"{view.state.serving_release or 'no release'} no longer runs")


def _end(view: StopView, owner: InstanceState) -> StopDecision:
    name, seen = owner.instance, view.seen.get(owner.instance, NEVER_STARTED)
    killing = view.on == kill_wait(name)
    if seen.life in (Life.DEAD, Life.ABSENT):
        return _say(record_of(name, seen), seen.why)
    if CommandKind.DRAIN not in seen.sent:
        # Also sent to a driver that cannot be observed: it stops by itself, and only the proof is left to its machine.
        return _say(Send(name, CommandKind.DRAIN), f"{owner.release} must stop")
    if seen.life is Life.UNKNOWN and view.waited_s > view.drain_s:
        why = f"driver {name} was ordered to drain, but cannot be proven dead from here: {seen.why}"
        return _say(Unprovable(), why)
    if killing and view.waited_s > KILL_S:
        return _say(Unprovable(), f"driver {name} was killed, but is still alive: {seen.why}")
    patience_s = min(view.drain_s, HALTED_S) if seen.halted else view.drain_s
    if seen.life is Life.ALIVE and (killing or view.waited_s > patience_s):
        return _say(Kill(name), undrained(name, seen, patience_s))
    return _say(Wait(f"{name}: drain", patience_s), f"{name} finishes its batch")


def _say(action: Send | Kill | RecordEnd | Wait | Stopped | TakenOver | Unprovable, reason: str) -> StopDecision:
    return StopDecision(action=action, reason=reason)
