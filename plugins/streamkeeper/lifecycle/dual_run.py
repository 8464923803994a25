"""Decisions of a dual run: the candidate reads the sources again into a shadow until it has caught up."""

from __future__ import annotations

from streamkeeper.lifecycle.actions import Decision, MarkDone, Send, Shadow, Wait
from streamkeeper.lifecycle.approval_steps import await_answer
from streamkeeper.lifecycle.decision_input import Observation
from streamkeeper.lifecycle.instances import candidate_of, give_up, make_decision, ready
from streamkeeper.lifecycle.review import reasons_to_review
from streamkeeper.lifecycle.steps import deadline_s
from streamkeeper.model.protocol.driver_messages import CommandKind
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import OutputsCompared
from streamkeeper.model.records.transitions import Transition


def shadow(observation: Observation) -> Decision:
    """Return the next decision until the standby fills the shadow, the output of a rebuild before the cutover."""
    step, name = Step.SHADOW, candidate_of(observation.operation)
    if CommandKind.SHADOW in observation.of(name).sent:
        return make_decision(step, MarkDone(), f"{name} rereads the sources")
    unready = ready(observation, step, name)
    if unready is not None:
        return unready
    if observation.state.shadow != name:
        return make_decision(step, Shadow(name), f"{name} may fill new checkpoint versions")
    return make_decision(step, Send(name, CommandKind.SHADOW), f"{name} must reread the sources")


def catch_up(observation: Observation) -> Decision:
    """Return the decision to wait until the candidate has read everything that the current release has read."""
    step, name = Step.CATCH_UP, candidate_of(observation.operation)
    if _holds_all(observation):
        return make_decision(step, MarkDone(), f"{name} has caught up: {_told(observation)}")
    return _dead_or(observation, step, name) or _wait(observation, step, f"{name}: catch-up")


def compare(observation: Observation) -> Decision:
    """Return the decision to compare the outputs of both releases over the same input."""
    step, operation = Step.COMPARE, observation.operation
    name, limit_s = candidate_of(operation), deadline_s(step, operation.request)
    if CommandKind.COMPARE not in observation.of(name).sent:
        return _dead_or(observation, step, name) or make_decision(
            step, Send(name, CommandKind.COMPARE), "both outputs can be compared"
        )
    status = observation.of(name).status
    results = status.compared if status is not None else {}
    wanted = {query for query, way in operation.transitions.items() if way.way is Transition.REBUILD}
    on = f"{name}: comparison"
    if not wanted <= results.keys() and not (observation.on == on and observation.waited_s > limit_s):
        return _dead_or(observation, step, name) or make_decision(step, Wait(on, limit_s), _told(observation) or on)
    # After the timeout a person decides, as for any comparison that was not possible.
    late = OutputComparison(comparable=False, why=f"the comparison did not complete within {limit_s:g} s")
    compared = {query: results.get(query, late) for query in sorted(wanted)}
    sentence = "; ".join(f"{query}: {comparison.sentence}" for query, comparison in compared.items())
    return make_decision(step, MarkDone(OutputsCompared(compared)), sentence)


def review(observation: Observation) -> Decision:
    """Return the decision to wait for a person's review of the rebuilt output.

    Meanwhile the candidate continues to fill that output.
    """
    step, operation = Step.REVIEW, observation.operation
    dead = _dead_or(observation, step, candidate_of(operation)) if operation.review is None else None
    return dead or await_answer(observation, step, why="; ".join(reasons_to_review(operation)))


def catch_up_after_drain(observation: Observation) -> Decision:
    """Return the decision to wait until the new release has read all input that the old release read before its end."""
    step, name = Step.CATCH_UP_AFTER_DRAIN, candidate_of(observation.operation)
    if _holds_all(observation):
        return make_decision(step, MarkDone(), f"{name} has processed all input: {_told(observation)}")
    return _dead_or(observation, step, name) or _wait(observation, step, f"{name}: the last batch")


def _holds_all(observation: Observation) -> bool:
    rebuilt = {query for query, way in observation.operation.transitions.items() if way.way is Transition.REBUILD}
    return all(query in observation.reached and observation.reached[query].holds for query in rebuilt)


def _told(observation: Observation) -> str:
    return "; ".join(f"{query}: {reached.text}" for query, reached in sorted(observation.reached.items()))


def _dead_or(observation: Observation, step: Step, name: str) -> Decision | None:
    """Return the decision to give up if the shadow has ended or fails repeatedly; None if it may continue."""
    seen = observation.of(name)
    if seen.life is Life.DEAD or (seen.state is not None and seen.state.terminal):
        return give_up(step, seen.error or f"{name} ended in its dual run: {seen.why}")
    if seen.life is Life.UNKNOWN:
        return give_up(step, f"{name} cannot be observed: {seen.why}")
    return give_up(step, seen.broken) if seen.broken else None


def _wait(observation: Observation, step: Step, on: str) -> Decision:
    limit_s = deadline_s(step, observation.operation.request)
    if observation.on == on and observation.waited_s > limit_s:
        return give_up(step, f"{on} was not reached within {limit_s:g} s: {_told(observation)}")
    return make_decision(step, Wait(on, limit_s), _told(observation) or on)
