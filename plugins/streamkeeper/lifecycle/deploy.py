"""The deploy: from what is recorded and what is seen to the next act. One ladder a step; reads and changes nothing."""

from __future__ import annotations

from streamkeeper.lifecycle.actions import (
    Action,
    Appoint,
    Assess,
    Decision,
    FallBack,
    Finish,
    Kill,
    Launch,
    MarkBegun,
    MarkDone,
    Plan,
    Preserve,
    Promote,
    RecordDescription,
    RecordEnd,
    Register,
    Send,
    Wait,
)
from streamkeeper.lifecycle.observation import Observation, Seen
from streamkeeper.lifecycle.steps import FORWARD, KILL_S, STOP_S, Step
from streamkeeper.model.control import CommandKind, DriverState, LaunchMode
from streamkeeper.model.finding import Verdict
from streamkeeper.model.job_state import InstanceState, OperationState
from streamkeeper.model.journal import Handover, Outcome, Role
from streamkeeper.model.liveness import Life

NOT_TAKEN = "failed: "
"""Begins what is recorded of a snapshot that could not be taken."""


def instance_name(operation: str, role: Role) -> str:
    """An operation starts at most one instance in a role: its name follows from both."""
    return f"{operation}-{role.value}"


def kill_wait(instance: str) -> str:
    """What an operation waits on once it has begun to kill an instance; killing has a deadline of its own."""
    return f"{instance}: kill"


def decide(at: Observation) -> Decision | None:
    """The next act of an open operation; None once it has an outcome."""
    operation = at.operation
    if operation.outcome is not None:
        return None
    if operation.fall_back:
        return _fall_back(at)
    step = next((each for each in FORWARD if each.label not in operation.done), Step.STABLE)
    if operation.abort and step is not Step.STABLE:
        return _give_up(step, f"aborted: {operation.abort}", untouched=Outcome.ABORTED)
    return _STEPS[step](at)


def _say(step: Step, action: Action, reason: str) -> Decision:
    return Decision(step=step, action=action, reason=reason)


def _give_up(step: Step, reason: str, *, untouched: Outcome = Outcome.REFUSED) -> Decision:
    return _say(step, FallBack(untouched), reason)


def _bundle(at: Observation) -> Decision:
    return _say(Step.BUNDLE, Register(), "the release needs a number and its bundle a place")


def _standby(at: Observation) -> Decision:
    step, request = Step.STANDBY, at.operation.request
    warm = request.handover is Handover.WARM and not request.dry_run
    role = Role.CANDIDATE if warm else Role.DESCRIBER
    release = at.operation.done[Step.BUNDLE.label]["release"]
    name = instance_name(at.operation.operation, role)
    started = _start(at, step, name, release, role)
    if started is not None:
        return started
    seen = at.of(name)
    if seen.described and release not in at.state.described:
        return _say(step, RecordDescription(name), f"{name} has described {release}")
    if warm:
        return _ready(at, step, name) or _say(step, MarkDone(), f"{name} stands by")
    if not seen.described:
        return _not_yet(at, step, name, "its description")
    if not at.state.instances[name].ended:
        return _end(at, step, name) or _say(step, MarkDone(), f"{release} is described")
    return _say(step, MarkDone(), f"{release} is described")


def _start(at: Observation, step: Step, name: str, release: str, role: Role) -> Decision | None:
    """Plan and launch an instance; None once something of it was seen."""
    if name not in at.state.instances:
        return _say(step, Plan(name, release, role), f"a {role.value} for {release} is needed")
    if at.of(name).life is Life.ABSENT and not at.state.instances[name].ended:
        if at.waited_s > at.operation.request.standby_s:
            return _give_up(step, f"{name} could not be started: {at.of(name).liveness.why}")
        mode = LaunchMode.DESCRIBE if role is Role.DESCRIBER else LaunchMode.STANDBY
        return _say(step, Launch(name, mode), f"{name} is planned and was never started")
    return None


def _ready(at: Observation, step: Step, name: str) -> Decision | None:
    """None once the instance stands by; else wait for it or give it up."""
    return (
        None if at.of(name).state is DriverState.STANDBY and _lives(at, name) else _not_yet(at, step, name, "standby")
    )


def _lives(at: Observation, name: str) -> bool:
    return at.of(name).life is Life.ALIVE


def _not_yet(at: Observation, step: Step, name: str, what: str) -> Decision:
    seen, limit = at.of(name), at.operation.request.standby_s
    if seen.life is Life.DEAD or (seen.state is not None and seen.state.terminal):
        return _give_up(step, seen.error or f"{name} ended before {what}: {seen.liveness.why}")
    if seen.life is Life.UNKNOWN:
        return _give_up(step, f"{name} cannot be observed: {seen.liveness.why}")
    if at.waited_s > limit:
        return _give_up(step, f"{name} did not reach {what} within {limit:g} s")
    return _say(step, Wait(f"{name}: {what}", limit), f"{name} is {seen.state.value if seen.state else 'starting'}")


def _assess(at: Observation) -> Decision:
    step, operation = Step.ASSESS, at.operation
    if operation.verdict is None:
        return _say(step, Assess(), "the candidate is described")
    if operation.request.dry_run:
        return _give_up(step, f"dry run: {operation.verdict_sentence}", untouched=Outcome.DRY_RUN)
    if operation.verdict is not Verdict.RESUME:
        return _give_up(step, operation.verdict_sentence)
    return _say(step, MarkDone(), operation.verdict_sentence)


def _drain(at: Observation) -> Decision:
    step, operation = Step.DRAIN, at.operation
    owners = at.state.owners
    if not owners:
        return _say(step, MarkDone(), "nothing owns the checkpoints")
    for owner in owners:
        if at.of(owner.instance).life is Life.UNKNOWN:
            return _give_up(step, _unprovable(at, owner))
    if step.label not in operation.begun:
        if operation.request.handover is Handover.WARM:
            candidate = instance_name(operation.operation, Role.CANDIDATE)
            unready = _ready(at, step, candidate)
            if unready is not None:
                return unready
        return _say(step, MarkBegun(), "the serving driver is about to be drained")
    for owner in owners:
        ending = _drain_one(at, step, owner, operation.request.drain_s)
        if ending is not None:
            return ending
    return _say(step, MarkDone(), "the serving driver has ended")


def _unprovable(at: Observation, owner: InstanceState) -> str:
    why = at.of(owner.instance).liveness.why
    return f"driver {owner.instance} of {owner.release} cannot be proven dead from here: {why}"


def _drain_one(at: Observation, step: Step, owner: InstanceState, patience_s: float) -> Decision | None:
    """None once no process of the owner is left."""
    name, seen = owner.instance, at.of(owner.instance)
    if seen.life is Life.DEAD:
        return None
    if seen.life is Life.UNKNOWN:
        lost = Wait(f"{name}: drain", KILL_S)
        return _give_up(step, _unprovable(at, owner)) if at.waited_s > KILL_S else _say(step, lost, seen.liveness.why)
    if CommandKind.DRAIN not in seen.sent:
        return _say(step, Send(name, CommandKind.DRAIN), f"{owner.release} hands over")
    if at.waited_s > patience_s or _killing(at, name):
        if _unkillable(at, name):
            return _give_up(step, _unprovable(at, owner))
        return _say(step, Kill(name), f"{name} did not drain within {patience_s:g} s")
    return _say(step, Wait(f"{name}: drain", patience_s), f"{name} finishes its batch")


def _killing(at: Observation, name: str) -> bool:
    return at.on == kill_wait(name)


def _unkillable(at: Observation, name: str) -> bool:
    return _killing(at, name) and at.waited_s > KILL_S


def _prove_dead(at: Observation) -> Decision:
    step = Step.PROVE_DEAD
    for owner in at.state.owners:
        seen = at.of(owner.instance)
        if seen.life in (Life.DEAD, Life.ABSENT):
            return _say(step, RecordEnd(owner.instance, seen.liveness.why, _last_word(seen)), seen.liveness.why)
        if _unkillable(at, owner.instance) or (at.waited_s > KILL_S and seen.life is Life.UNKNOWN):
            return _give_up(step, _unprovable(at, owner))
        if seen.life is Life.ALIVE:
            return _say(step, Kill(owner.instance), f"{owner.instance} has processes left")
        return _say(step, Wait(f"{owner.instance}: proof of death", KILL_S), seen.liveness.why)
    return _say(step, MarkDone(), "no driver owns the checkpoints")


def _last_word(seen: Seen) -> str:
    return seen.state.value if seen.state is not None else "without a word"


def _go(at: Observation) -> Decision:
    step, operation = Step.GO, at.operation
    name = instance_name(operation.operation, Role.CANDIDATE)
    release = operation.done[Step.BUNDLE.label]["release"]
    sent = _send_go(at, step, name, release, Role.CANDIDATE)
    return sent or _say(step, MarkDone(), f"{name} was told to go")


def _send_go(at: Observation, step: Step, name: str, release: str, role: Role) -> Decision | None:
    """Start the instance if need be, appoint it, tell it to go; None once that is done."""
    if CommandKind.GO in at.of(name).sent:
        return None
    pending = _start(at, step, name, release, role) or _ready(at, step, name)
    if pending is not None:
        return pending
    if at.state.appointed != name:
        return _say(step, Appoint(name), f"{name} takes over {release}")
    return _say(step, Send(name, CommandKind.GO), f"{name} is appointed")


def _first_commit(at: Observation) -> Decision:
    step, limit = Step.FIRST_COMMIT, at.operation.request.first_commit_s
    name = instance_name(at.operation.operation, Role.CANDIDATE)
    seen = at.of(name)
    if seen.first_triggers_done:
        return _say(step, MarkDone(), f"every query of {name} has completed a trigger")
    failure = _failed_to_serve(at, name, limit)
    if failure:
        return _give_up(step, failure)
    return _say(step, Wait(f"{name}: first trigger", limit), f"{name} opens its checkpoints")


def _failed_to_serve(at: Observation, name: str, limit_s: float) -> str:
    """Why an instance that was told to go will not serve; empty while it still may."""
    seen = at.of(name)
    if seen.life is Life.DEAD or (seen.state is not None and seen.state.terminal):
        return seen.error or f"{name} ended before its first trigger: {seen.liveness.why}"
    if at.waited_s > limit_s:
        return f"{name} completed no trigger within {limit_s:g} s" + (f": {seen.error}" if seen.error else "")
    return ""


def _boundary(at: Observation) -> Decision:
    step, batches = Step.BOUNDARY, at.operation.done[Step.PROVE_DEAD.label]
    if not batches:
        return _say(step, MarkDone(), "nothing was committed before")
    told = ", ".join(f"{query} at batch {batch}" for query, batch in sorted(batches.items()))
    return _say(step, Preserve(), f"the boundary is {told}")


def _stable(at: Observation) -> Decision:
    operation, state = at.operation, at.state
    name = instance_name(operation.operation, Role.CANDIDATE)
    release = operation.done[Step.BUNDLE.label]["release"]
    if Step.STABLE.label in operation.done:
        return _say(Step.STABLE, Finish(Outcome.SUCCEEDED), f"{release} serves ({name}){_unpreserved(operation)}")
    if state.serving_instance != name:
        return _say(Step.STABLE, Promote(name), f"{release} serves from here on")
    return _say(Step.STABLE, MarkDone(), f"{release} serves")


def _unpreserved(operation: OperationState) -> str:
    """What the snapshot of the boundary lacks, for the operation's sentence."""
    taken = operation.done.get(Step.BOUNDARY.label, {})
    lost = [f"{query}: {told}" for query, told in sorted(taken.items()) if told.startswith(NOT_TAKEN)]
    return f"; no snapshot of the boundary: {'; '.join(lost)}" if lost else ""


_STEPS = {
    Step.BUNDLE: _bundle,
    Step.STANDBY: _standby,
    Step.ASSESS: _assess,
    Step.DRAIN: _drain,
    Step.PROVE_DEAD: _prove_dead,
    Step.GO: _go,
    Step.FIRST_COMMIT: _first_commit,
    Step.BOUNDARY: _boundary,
    Step.STABLE: _stable,
}


def _fall_back(at: Observation) -> Decision:
    step, operation, state = Step.FALL_BACK, at.operation, at.state
    for role in (Role.DESCRIBER, Role.CANDIDATE):
        for instance in state.instances_of(operation.operation, role):
            ending = None if instance.ended else _end(at, step, instance.instance)
            if ending is not None:
                return ending
    if Step.DRAIN.label not in operation.begun:
        return _untouched(at)
    fallback = instance_name(operation.operation, Role.FALLBACK)
    for owner in state.owners:
        ending = None if owner.instance == fallback else _end(at, step, owner.instance)
        if ending is not None:
            return ending
    return _serve_again(at, fallback)


def _end(at: Observation, step: Step, name: str) -> Decision | None:
    """End an instance of this operation, politely first; None once its end is recorded."""
    instance, seen = at.state.instances[name], at.of(name)
    patience_s, order = (STOP_S * 3, CommandKind.DRAIN) if instance.appointed else (STOP_S, CommandKind.STOP)
    if seen.life in (Life.DEAD, Life.ABSENT):
        return _say(step, RecordEnd(name, seen.liveness.why, _last_word(seen)), seen.liveness.why)
    if seen.life is Life.UNKNOWN or _unkillable(at, name):
        before = f"{at.operation.fall_back}; and " if at.operation.fall_back else ""
        return _say(step, Finish(Outcome.FAILED), before + _unprovable(at, instance))
    if order not in seen.sent:
        return _say(step, Send(name, order), f"{name} is not needed any more")
    if at.waited_s > patience_s or _killing(at, name):
        return _say(step, Kill(name), f"{name} did not end within {patience_s:g} s")
    return _say(step, Wait(f"{name}: end", patience_s), f"{name} ends")


def _untouched(at: Observation) -> Decision:
    serving, operation = at.state.serving_release, at.operation
    candidate_went = any(each.appointed for each in at.state.instances_of(operation.operation, Role.CANDIDATE))
    if candidate_went:
        return _say(Step.FALL_BACK, Finish(Outcome.FAILED), f"{operation.fall_back}; nothing serves")
    stays = f"{serving} stays as it was" if serving else "nothing was deployed"
    return _say(Step.FALL_BACK, Finish(operation.untouched), f"{operation.fall_back}; {stays}")


def _serve_again(at: Observation, name: str) -> Decision:
    step, operation, state = Step.FALL_BACK, at.operation, at.state
    release = state.serving_release
    if state.serving_instance == name:
        return _say(step, Finish(Outcome.FELL_BACK), f"{operation.fall_back}; {release} serves again ({name})")
    candidate_went = any(each.appointed for each in state.instances_of(operation.operation, Role.CANDIDATE))
    if candidate_went and operation.reverse is not Verdict.RESUME:
        lost = f"{release} cannot take over the candidate's checkpoint: fix forward with a new release"
        return _say(step, Finish(Outcome.FAILED), f"{operation.fall_back}; {lost}")
    fallback = state.instances.get(name)
    if fallback is not None and fallback.ended:
        why = at.of(name).error or fallback.proof
        return _say(step, Finish(Outcome.FAILED), f"{operation.fall_back}; {release} could not serve again: {why}")
    decision = _send_go(at, step, name, release, Role.FALLBACK) or _await_fallback(at, name)
    if isinstance(decision.action, FallBack):
        return _end(at, step, name) or decision
    return decision


def _await_fallback(at: Observation, name: str) -> Decision:
    limit = at.operation.request.first_commit_s
    if at.of(name).first_triggers_done:
        return _say(Step.FALL_BACK, Promote(name), f"every query of {name} has completed a trigger")
    failure = _failed_to_serve(at, name, limit)
    if failure:
        return _give_up(Step.FALL_BACK, failure)
    return _say(Step.FALL_BACK, Wait(f"{name}: first trigger", limit), f"{name} opens its checkpoints")
