"""Decisions after the candidate has failed: stop its instances and restart the old release.

The rollback is kept warm: as long as the candidate may still fail, the old release is on standby.
"""

from __future__ import annotations

from streamkeeper.lifecycle.actions import (
    Decision,
    FallBack,
    Finish,
    GiveUpStarting,
    Launch,
    Plan,
    Promote,
    RestoreVersions,
    Wait,
)
from streamkeeper.lifecycle.decision_input import Observation
from streamkeeper.lifecycle.draining import end, record_of
from streamkeeper.lifecycle.instances import (
    candidate_of,
    failed_to_serve,
    give_up,
    instance_name,
    make_decision,
    send_go,
)
from streamkeeper.lifecycle.steps import RESERVE_AFTER_S
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, LaunchMode
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_records import Outcome, Role
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import Handover

_START_S = 10.0
"""Seconds that the reserve's processes may take to appear. The limit is short, because running queries must not wait
for them.
"""


def keep_reserve(observation: Observation, step: Step) -> Decision | None:
    """Return the decision to start the old release on standby, as a reserve, or to record that the reserve has
    terminated or could not be started.

    Return None if there is nothing to do: the reserve is not needed or would be of no use, it is running or cannot be
    observed, or its termination is already recorded. The reserve owns nothing, and its termination does not affect the
    candidate: ``fall_back`` starts another instance if it needs one. A reserve is of use only in a warm handover. Such
    a handover has room for it, because the candidate was on standby next to the old driver.
    """
    name, release = reserve_of(observation.operation), observation.state.serving_release
    known = observation.state.instances.get(name)
    if known is None:
        wanted = _may_be_needed(observation, step) and _is_of_use(observation)
        return (
            make_decision(step, Plan(name, release, Role.FALLBACK), f"{release} is requested as a standby")
            if wanted
            else None
        )
    if known.ended:
        return None
    seen = observation.of(name)
    if seen.life is Life.ABSENT and observation.waited_s > _START_S:
        return make_decision(
            step, GiveUpStarting(name), f"no process of {name} appeared within {_START_S:g} s: {seen.why}"
        )
    if seen.life is Life.ABSENT:
        return make_decision(
            step,
            Launch(name, LaunchMode.STANDBY),
            f"{release} is kept on standby in case {observation.operation.release} fails",
        )
    if seen.life is Life.DEAD:
        return make_decision(step, record_of(name, seen), f"{name} has ended: {seen.why}")
    return None


def end_reserve(observation: Observation, step: Step) -> Decision | None:
    """Return the decision to stop the reserve; None if there is no reserve, or if it cannot be stopped from here.

    The reserve owns nothing, and exits by itself once it reads that the operation has finished.
    """
    reserve = observation.state.instances.get(reserve_of(observation.operation))
    if reserve is None or reserve.ended or reserve.appointed:
        return None
    ending = end(observation, step, reserve.instance)
    return None if ending is not None and isinstance(ending.action, Finish) else ending


def _may_be_needed(observation: Observation, step: Step) -> bool:
    """Whether the candidate takes long or has failed once. Both happen before the operation gives up the candidate."""
    status = observation.of(candidate_of(observation.operation)).status
    failed = status is not None and any(query.failures for query in status.queries.values())
    return step is Step.FALL_BACK or failed or observation.waited_s > RESERVE_AFTER_S


def _is_of_use(observation: Observation) -> bool:
    operation, serving = observation.operation, observation.state.serving_release
    if serving in ("", operation.release) or observation.state.stopped is not None:
        return False
    return operation.request.handover is Handover.WARM and not _blocked(operation)


def reserve_of(operation: OperationState) -> str:
    """Return the name of the instance that keeps the old release on standby while that release may still be needed."""
    return instance_name(operation.operation, Role.FALLBACK)


def _fallback_of(observation: Observation) -> str:
    """Return the name of the instance that restarts the old release: the reserve, or another one if the reserve
    terminated unused.
    """
    name = reserve_of(observation.operation)
    reserve = observation.state.instances.get(name)
    unused = reserve is not None and reserve.ended and not reserve.appointed
    return f"{name}-again" if unused else name


def fall_back(observation: Observation) -> Decision:
    """Return the decision to stop the candidate and, if the old driver was drained, to restart the old release."""
    step, operation, state = Step.FALL_BACK, observation.operation, observation.state
    # It starts while the candidate stops: there is room for both.
    if _candidate_went(observation) and (starting := keep_reserve(observation, step)) is not None:
        return starting
    for role in (Role.DESCRIBER, Role.CANDIDATE):
        for instance in state.instances_of(operation.operation, role):
            ending = None if instance.ended else end(observation, step, instance.instance)
            if ending is not None:
                return ending
    if not operation.has_begun(Step.DRAIN):
        return _untouched(observation)
    fallback = _fallback_of(observation)
    for owner in state.owners:
        ending = None if owner.instance == fallback else end(observation, step, owner.instance)
        if ending is not None:
            return ending
    if state.stopped is not None:
        return end_reserve(observation, step) or _stays_stopped(observation)
    return _serve_again(observation, fallback)


def _stays_stopped(observation: Observation) -> Decision:
    """Return the decision that finishes a failed deploy of a job that was stopped before: the old release is not
    restarted.
    """
    operation = observation.operation
    outcome = Outcome.FAILED if _candidate_went(observation) else operation.outcome_if_untouched
    return make_decision(
        Step.FALL_BACK, Finish(outcome), f"{operation.fall_back}; the job stays stopped, no release runs"
    )


def _untouched(observation: Observation) -> Decision:
    serving, operation = observation.state.serving_release, observation.operation
    if _candidate_went(observation):
        return make_decision(Step.FALL_BACK, Finish(Outcome.FAILED), f"{operation.fall_back}; no release runs")
    stays = f"{serving} stays as it was" if serving else "nothing was deployed"
    return make_decision(Step.FALL_BACK, Finish(operation.outcome_if_untouched), f"{operation.fall_back}; {stays}")


def _serve_again(observation: Observation, name: str) -> Decision:
    step, operation, state = Step.FALL_BACK, observation.operation, observation.state
    release = state.serving_release
    if state.serving_instance == name:
        return _served_again(observation, name)
    went = _candidate_went(observation)
    blocked = _blocked(operation) if went else ""
    if blocked:
        lost = f"{release} cannot take over ({blocked}); deploy a new release that fixes the problem"
        return make_decision(step, Finish(Outcome.FAILED), f"{operation.fall_back}; {lost}")
    if _promoted_instead(observation) or (went and _lossy(observation)):
        return _stays_with_candidate(observation)
    fallback = state.instances.get(name)
    if fallback is not None and fallback.ended:
        why = observation.of(name).error or fallback.proof
        return make_decision(
            step, Finish(Outcome.FAILED), f"{operation.fall_back}; {release} could not be restarted: {why}"
        )
    if CommandKind.STOP in observation.of(name).sent and (ending := end(observation, step, name)) is not None:
        return ending
    if went and ways_back(operation) and not operation.has_done(step):
        return make_decision(step, RestoreVersions(), f"{release} goes back to its last batch")
    versions = _versions_back(observation) if went else {}
    decision = send_go(observation, step, name, release, Role.FALLBACK, versions) or _await(observation, name)
    if isinstance(decision.action, FallBack):
        return end(observation, step, name) or decision
    return decision


def _lossy(observation: Observation) -> list[str]:
    """Return the rows that each rollback path loses; empty if the old release can continue from the last commit."""
    if observation.operation.reverse is Verdict.RESUME:
        return []
    return [f"query {query}: {how}" for query, how in sorted(observation.lost_back.items())]


def _stays_with_candidate(observation: Observation) -> Decision:
    """Return the decision that finishes an operation whose rollback loses rows. No driver runs, because only a person
    may accept the loss.

    The candidate's release is first recorded as the current one, because its checkpoints are the valid ones. The next
    start or deploy is therefore compared with that release, and a rollback from it asks a person to accept the loss.
    """
    step, operation = Step.FALL_BACK, observation.operation
    if ending := end_reserve(observation, step):
        return ending
    lost = "; ".join(_lossy(observation)) or "the rollback loses rows"
    accept = f"run `streamkeeper rollback {observation.state.job} --accept-loss` to accept the loss"
    why = f"{operation.fall_back}; {lost}; no driver runs. Put the files back, or {accept}"
    if not _promoted_instead(observation):
        owners = [
            each for each in observation.state.instances_of(operation.operation, Role.CANDIDATE) if each.appointed
        ]
        return make_decision(step, Promote(owners[-1].instance), why)
    return make_decision(step, Finish(Outcome.FAILED), why)


def _promoted_instead(observation: Observation) -> bool:
    """Whether the candidate is recorded as current although it has failed."""
    candidates = observation.state.instances_of(observation.operation.operation, Role.CANDIDATE)
    return observation.state.serving_instance in {instance.instance for instance in candidates}


def _served_again(observation: Observation, name: str) -> Decision:
    step, seen, before = (
        Step.FALL_BACK,
        observation.of(name),
        f"{observation.operation.fall_back}; {observation.state.serving_release}",
    )
    if seen.first_triggers_done:
        return make_decision(step, Finish(Outcome.FELL_BACK), f"{before} is running again ({name})")
    error = seen.broken or seen.error
    reason = f"no trigger has completed yet{f': {error}' if error else ''}"
    return make_decision(step, Finish(Outcome.FAILED), f"{before} remains the current release ({name}): {reason}")


def _candidate_went(observation: Observation) -> bool:
    return any(
        instance.appointed
        for instance in observation.state.instances_of(observation.operation.operation, Role.CANDIDATE)
    )


def _blocked(operation: OperationState) -> str:
    """Return why the old release cannot take over from the candidate; empty if it can."""
    if not operation.transitions and operation.reverse is not Verdict.RESUME:
        return "its checkpoint has changed since that release ran"
    reasons = [
        f"query {query}: {way.no_way_back or 'there is no rollback path'}"
        for query, way in sorted(operation.transitions.items())
        if way.way is not Transition.START and way.back is None
    ]
    return "; ".join(reasons)


def _versions_back(observation: Observation) -> dict[str, str]:
    restored = observation.operation.versions_back
    # Only a release that accepts the candidate's state reaches this point with a rollback path that loses rows.
    forward = {query: observation.operation.transitions[query].version for query in observation.lost_back}
    return {
        query: forward.get(query) or restored.get(query, way.before)
        for query, way in observation.operation.transitions.items()
        if way.way is not Transition.START
    }


def ways_back(operation: OperationState) -> dict[str, QueryTransition]:
    """Return, by query, the transition of every query whose rollback path restores a snapshot."""
    return {query: way for query, way in operation.transitions.items() if way.back is Transition.RESTORE}


def _await(observation: Observation, name: str) -> Decision:
    limit = observation.operation.request.first_commit_s
    if observation.of(name).first_triggers_done:
        return make_decision(Step.FALL_BACK, Promote(name), f"every query of {name} has completed a trigger")
    failure = failed_to_serve(observation, name, limit, "first trigger")
    seen = observation.of(name)
    if failure and seen.life is Life.ALIVE and (seen.state is DriverState.SERVING or seen.waits):
        # No other driver could continue once its source or its sink is reachable again.
        return make_decision(Step.FALL_BACK, Promote(name), f"{failure}; {name} remains the current driver")
    if failure:
        return give_up(Step.FALL_BACK, failure)
    return make_decision(Step.FALL_BACK, Wait(f"{name}: first trigger", limit), f"{name} opens its checkpoints")
