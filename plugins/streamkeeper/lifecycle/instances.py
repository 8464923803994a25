"""Decisions about one driver instance of an operation: start it, wait for its standby, send it GO, detect
its failure.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamkeeper.lifecycle.actions import Action, Appoint, Decision, FallBack, Launch, Plan, Send, Wait
from streamkeeper.lifecycle.decision_input import Observation
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, LaunchMode
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_records import Outcome, Role
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step


def instance_name(operation: str, role: Role, *, again: bool = False) -> str:
    """Return the name of an operation's instance with this role.

    ``again``: whether it is the second instance of the role, which the operation starts after an approval.
    """
    return f"{operation}-{role.value}{'-approved' if again else ''}"


def candidate_of(operation: OperationState) -> str:
    """Return the name of the instance that becomes current if the operation succeeds."""
    return instance_name(operation.operation, Role.CANDIDATE, again=operation.has_done(Step.APPROVE))


def kill_wait(instance: str) -> str:
    """Return the name of the wait that follows a kill of the instance; this wait has its own deadline."""
    return f"{instance}: kill"


def make_decision(step: Step, action: Action, reason: str) -> Decision:
    """Build a decision."""
    return Decision(step=step, action=action, reason=reason)


def give_up(step: Step, reason: str, *, outcome_if_untouched: Outcome = Outcome.REFUSED) -> Decision:
    """Return the decision that the candidate will not take over.

    ``outcome_if_untouched``: the operation's outcome if neither the current driver nor a checkpoint was changed.
    """
    return make_decision(step, FallBack(outcome_if_untouched), reason)


def start(observation: Observation, step: Step, name: str, release: str, role: Role) -> Decision | None:
    """Return the decision to plan, launch or give up an instance.

    Return None if the instance has started, has terminated, or cannot be observed from here.

    ``observation``: the observation.
    ``step``: the step of the decision.
    ``name``: the instance.
    ``release``: the release that it runs.
    ``role``: its role in the operation.
    """
    if name not in observation.state.instances:
        return make_decision(step, Plan(name, release, role), f"a {role.value} for {release} is needed")
    if observation.of(name).life is Life.ABSENT and not observation.state.instances[name].ended:
        if observation.waited_s > observation.operation.request.standby_s:
            return give_up(step, f"{name} could not be started: {observation.of(name).why}")
        mode = LaunchMode.DESCRIBE if role is Role.DESCRIBER else LaunchMode.STANDBY
        return make_decision(step, Launch(name, mode), f"{name} is planned and not started yet")
    return None


def ready(observation: Observation, step: Step, name: str) -> Decision | None:
    """Return the decision to wait until the instance is on standby, or to give it up; None if it is on standby."""
    stands_by = observation.of(name).state is DriverState.STANDBY and observation.of(name).life is Life.ALIVE
    return None if stands_by else not_yet(observation, step, name, "standby")


def not_yet(observation: Observation, step: Step, name: str, what: str) -> Decision:
    """Return the decision to wait until an instance has reached ``what``, or to give up the instance."""
    seen, limit = observation.of(name), observation.operation.request.standby_s
    if seen.life is Life.DEAD or (seen.state is not None and seen.state.terminal):
        return give_up(step, seen.error or f"{name} ended before {what}: {seen.why}")
    if seen.life is Life.UNKNOWN:
        return give_up(step, f"{name} cannot be observed: {seen.why}")
    if observation.waited_s > limit:
        why = f": {seen.held_up_by}" if seen.held_up_by else ""
        return give_up(step, f"{name} did not reach {what} within {limit:g} s{why}")
    return make_decision(
        step, Wait(f"{name}: {what}", limit), f"{name} is {seen.state.value if seen.state else 'starting'}"
    )


def send_go(
    observation: Observation, step: Step, name: str, release: str, role: Role, versions: Mapping[str, str]
) -> Decision | None:
    """Return the next decision on the way to GO (start, wait, appoint or send), or None once GO was sent.

    ``observation``: the observation.
    ``step``: the step of the decision.
    ``name``: the instance.
    ``release``: the release that it runs.
    ``role``: its role in the operation.
    ``versions``: query -> checkpoint version that it will own.
    """
    if CommandKind.GO in observation.of(name).sent:
        return None
    pending = start(observation, step, name, release, role)
    if pending is None and not shadows(observation, name):
        pending = ready(observation, step, name)
    if pending is not None:
        return pending
    if observation.state.appointed != name:
        return make_decision(step, Appoint(name, dict(versions)), f"{name} takes over {release}")
    return make_decision(step, Send(name, CommandKind.GO), f"{name} is appointed")


def shadows(observation: Observation, name: str) -> bool:
    """Whether the instance is running and fills a shadow, the output of a rebuild before the cutover."""
    return observation.of(name).state is DriverState.SHADOW and observation.of(name).life is Life.ALIVE


def failed_to_serve(observation: Observation, name: str, limit_s: float, what: str) -> str:
    """Return why an instance that was sent GO will not take over; empty as long as it may still take over.

    ``limit_s``: the longest time for the present wait, in seconds.
    ``what``: the event for which the step waits, as named in the reason, such as ``first trigger``.
    """
    seen = observation.of(name)
    if seen.life is Life.DEAD or (seen.state is not None and seen.state.terminal):
        return seen.error or f"{name} ended before its {what}: {seen.why}"
    if observation.waited_s > limit_s:
        return f"{name} did not complete its {what} within {limit_s:g} s" + (f": {seen.error}" if seen.error else "")
    return ""
