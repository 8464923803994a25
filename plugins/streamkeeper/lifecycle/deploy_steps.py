"""Decides the next action of a deploy from records and observations, with one function per step and without I/O.

In a dual run, the candidate rereads the sources into a shadow until it has caught up.
"""

from __future__ import annotations

from streamkeeper.lifecycle.actions import (
    Assess,
    Decision,
    Finish,
    MarkDone,
    Promote,
    RecordDescription,
    Register,
    RestoreVersions,
    Send,
    Shadow,
    TakeCutoverSnapshots,
    Wait,
)
from streamkeeper.lifecycle.approval_steps import approve, await_answer, get_ready, keep_state
from streamkeeper.lifecycle.decision_input import Observation
from streamkeeper.lifecycle.draining import drain, gathered, prove_dead
from streamkeeper.lifecycle.fall_back import end_reserve, fall_back, keep_reserve
from streamkeeper.lifecycle.instances import (
    candidate_of,
    failed_to_serve,
    give_up,
    instance_name,
    make_decision,
    not_yet,
    ready,
    send_go,
    start,
)
from streamkeeper.lifecycle.review import reasons_to_review
from streamkeeper.lifecycle.steps import current_step, deadline_s
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.journal_records import Outcome, Role
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import FirstBacklog, OutputsCompared
from streamkeeper.model.requests.request import Handover

LAG_GROWTH, LAG_FLOOR = 2, 1000
"""A release lags if the number of waiting records exceeds both LAG_FLOOR and LAG_GROWTH times the number at its first
commit.
"""


def decide(observation: Observation) -> Decision | None:
    """Return the next action of an open operation; None once the operation has an outcome."""
    operation = observation.operation
    if operation.outcome is not None:
        return None
    step = current_step(operation)
    if operation.abort and step not in (Step.PROMOTE, Step.FALL_BACK):
        return give_up(step, f"aborted: {operation.abort}", outcome_if_untouched=Outcome.ABORTED)
    return LADDERS[step](observation)


def _bundle(observation: Observation) -> Decision:
    return make_decision(Step.BUNDLE, Register(), "the release needs a number, and its bundle must be stored")


def _standby(observation: Observation) -> Decision:
    step, request = Step.STANDBY, observation.operation.request
    warm = request.handover is Handover.WARM and not request.dry_run
    role = Role.CANDIDATE if warm else Role.DESCRIBER
    release = observation.operation.release
    name = instance_name(observation.operation.operation, role)
    started = start(observation, step, name, release, role)
    if started is not None:
        return started
    seen = observation.of(name)
    if seen.described and release not in observation.state.described:
        return make_decision(step, RecordDescription(name), f"{name} has described {release}")
    if warm:
        return ready(observation, step, name) or make_decision(step, MarkDone(), f"{name} is on standby")
    if not seen.described:
        return not_yet(observation, step, name, "its description")
    return gathered(observation, step, name) or make_decision(step, MarkDone(), f"{release} is described")


def _assess(observation: Observation) -> Decision:
    step, operation = Step.ASSESS, observation.operation
    if operation.verdict is None:
        return make_decision(step, Assess(), "the candidate is described")
    if operation.request.dry_run:
        return give_up(step, f"dry run: {operation.verdict_sentence}", outcome_if_untouched=Outcome.DRY_RUN)
    if operation.refusal or (operation.verdict is not Verdict.RESUME and not operation.transitions):
        return give_up(step, operation.verdict_sentence)
    return make_decision(step, MarkDone(), operation.verdict_sentence)


def _restore(observation: Observation) -> Decision:
    return make_decision(Step.RESTORE, RestoreVersions(), "the release rolls back to its last batch")


def _go(observation: Observation) -> Decision:
    step, operation = Step.GO, observation.operation
    name = candidate_of(operation)
    release = operation.release
    versions = {query: way.version for query, way in operation.transitions.items() if way.version}
    sent = send_go(observation, step, name, release, Role.CANDIDATE, versions)
    return sent or make_decision(step, MarkDone(), f"{name} was ordered to start")


def _first_commit(observation: Observation) -> Decision:
    step, limit = Step.FIRST_COMMIT, deadline_s(Step.FIRST_COMMIT, observation.operation.request)
    name = candidate_of(observation.operation)
    seen = observation.of(name)
    if seen.first_triggers_done:
        return make_decision(step, MarkDone(FirstBacklog(seen.lag)), f"every query of {name} has completed a trigger")
    failure = seen.broken or failed_to_serve(observation, name, limit, "first trigger")
    if failure:
        return give_up(step, failure)
    waiting = make_decision(step, Wait(f"{name}: first trigger", limit), f"{name} opens its checkpoints")
    return keep_reserve(observation, step) or waiting


def _snapshot(observation: Observation) -> Decision:
    step, batches = Step.SNAPSHOT, observation.operation.last_batches
    if not batches:
        return make_decision(step, MarkDone(), "no batch was committed before")
    batches_text = ", ".join(f"{query} at batch {batch}" for query, batch in sorted(batches.items()))
    return make_decision(step, TakeCutoverSnapshots(), f"the previous release ended at {batches_text}")


def _probation(observation: Observation) -> Decision:
    step, operation, request = Step.PROBATION, observation.operation, observation.operation.request
    limit = deadline_s(step, request)
    name = candidate_of(operation)
    seen = observation.of(name)
    queries = frozenset(observation.state.described[operation.release])
    wanted = request.probation_batches + 1
    lagging = _lagging(operation.first_backlog, seen.lag)
    if seen.state is DriverState.FINISHED or (seen.triggers_of(queries) >= wanted and not lagging):
        return make_decision(
            step, MarkDone(), f"{name} has passed its probation of {request.probation_batches} triggers"
        )
    failure = seen.broken or failed_to_serve(observation, name, limit, "probation")
    if failure:
        return give_up(step, f"{failure}; {lagging}" if lagging else failure)
    progress = f"{name} has completed {seen.triggers_of(queries)} of {wanted} triggers"
    waiting = make_decision(step, Wait(f"{name}: probation", limit), f"{progress}; {lagging}" if lagging else progress)
    return keep_reserve(observation, step) or waiting


def _lagging(first: dict[str, int], now: dict[str, int]) -> str:
    """Return a clause about the queries whose backlog grows; empty if no backlog grows, or if no source reports its
    backlog.
    """
    grown = [
        f"query {query} is {behind} records behind, up from {first[query]} at its first commit"
        for query, behind in sorted(now.items())
        if query in first and behind > max(LAG_GROWTH * first[query], LAG_FLOOR)
    ]
    return "; ".join(grown)


def _promote(observation: Observation) -> Decision:
    operation, state = observation.operation, observation.state
    name = candidate_of(operation)
    release = operation.release
    if operation.has_done(Step.PROMOTE):
        reason = f"{release} is the current release ({name}){_uncompared(operation)}{_untaken(operation)}"
        return make_decision(Step.PROMOTE, Finish(Outcome.SUCCEEDED), reason)
    if state.serving_instance != name:
        return make_decision(Step.PROMOTE, Promote(name), f"{release} becomes the current release")
    return end_reserve(observation, Step.PROMOTE) or make_decision(
        Step.PROMOTE, MarkDone(), f"{release} is the current release"
    )


def _uncompared(operation: OperationState) -> str:
    """Return a clause about the rebuilt outputs that were not compared, for the operation's sentence; empty if there
    are none.
    """
    rebuilt = sorted(operation.rebuilt)
    if not rebuilt or operation.request.compare:
        return ""
    return f"; the rebuilt output of {', '.join(rebuilt)} was not compared, as requested"


def _untaken(operation: OperationState) -> str:
    """Return a clause about the missing cutover snapshots, for the operation's sentence; empty if none is missing."""
    failed = [f"{query}: {why}" for query, why in sorted(operation.cutover_snapshots.failed.items())]
    return f"; no cutover snapshot of {'; '.join(failed)}" if failed else ""


def shadow(observation: Observation) -> Decision:
    """Return the next decision on the way to a standby that fills the shadow, which is the output of a rebuild before
    the cutover.
    """
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
    wanted = operation.rebuilt.keys()
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

    The candidate continues to fill that output during the wait.
    """
    step, operation = Step.REVIEW, observation.operation
    dead = _dead_or(observation, step, candidate_of(operation)) if operation.review is None else None
    return dead or await_answer(observation, step, why="; ".join(reasons_to_review(operation)))


def catch_up_after_drain(observation: Observation) -> Decision:
    """Return the decision to wait until the new release has read all input that the old release read before it
    stopped.
    """
    step, name = Step.CATCH_UP_AFTER_DRAIN, candidate_of(observation.operation)
    if _holds_all(observation):
        return make_decision(step, MarkDone(), f"{name} has processed all input: {_told(observation)}")
    return _dead_or(observation, step, name) or _wait(observation, step, f"{name}: the last batch")


def _holds_all(observation: Observation) -> bool:
    reached = observation.reached
    return all(query in reached and reached[query].holds for query in observation.operation.rebuilt)


def _told(observation: Observation) -> str:
    return "; ".join(f"{query}: {reached.text}" for query, reached in sorted(observation.reached.items()))


def _dead_or(observation: Observation, step: Step, name: str) -> Decision | None:
    """Return the decision to give up if the shadow's driver has terminated, cannot be observed or fails repeatedly;
    otherwise None.
    """
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


LADDERS = {
    Step.BUNDLE: _bundle,
    Step.STANDBY: _standby,
    Step.ASSESS: _assess,
    Step.KEEP_STATE: keep_state,
    Step.APPROVE: approve,
    Step.READY: get_ready,
    Step.SHADOW: shadow,
    Step.CATCH_UP: catch_up,
    Step.COMPARE: compare,
    Step.REVIEW: review,
    Step.DRAIN: drain,
    Step.PROVE_DEAD: prove_dead,
    Step.CATCH_UP_AFTER_DRAIN: catch_up_after_drain,
    Step.RESTORE: _restore,
    Step.GO: _go,
    Step.FIRST_COMMIT: _first_commit,
    Step.SNAPSHOT: _snapshot,
    Step.PROBATION: _probation,
    Step.PROMOTE: _promote,
    Step.FALL_BACK: fall_back,
}
"""Step -> its decision function."""
