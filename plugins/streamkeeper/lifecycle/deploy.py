"""The deploy: from what is recorded and what is seen to the next act. One ladder a step; reads and changes nothing."""

from __future__ import annotations

from streamkeeper.lifecycle.actions import (
    Assess,
    Decision,
    Finish,
    MarkDone,
    Preserve,
    Promote,
    RecordDescription,
    Register,
    RestoreVersions,
    Wait,
)
from streamkeeper.lifecycle.approval import approve, back_up, get_ready
from streamkeeper.lifecycle.draining import drain, gathered, prove_dead
from streamkeeper.lifecycle.dual_run import catch_up, compare, reach, review, shadow
from streamkeeper.lifecycle.fall_back import fall_back
from streamkeeper.lifecycle.instances import (
    candidate_of,
    failed_to_serve,
    give_up,
    instance_name,
    not_yet,
    ready,
    say,
    send_go,
    start,
)
from streamkeeper.lifecycle.observation import Observation
from streamkeeper.lifecycle.steps import Step, current_step
from streamkeeper.model.control import DriverState
from streamkeeper.model.finding import Verdict
from streamkeeper.model.job_state import OperationState
from streamkeeper.model.journal import Handover, Outcome, Role
from streamkeeper.model.ways import Way

NOT_TAKEN = "failed: "
"""Begins what is recorded of a snapshot that could not be taken."""
LAG_GROWTH, LAG_FLOOR = 2, 1000
"""A release lags when more records wait than this many times those that waited at its first commit, and than this."""


def decide(at: Observation) -> Decision | None:
    """The next act of an open operation; None once it has an outcome."""
    operation = at.operation
    if operation.outcome is not None:
        return None
    step = current_step(operation)
    if step is Step.FALL_BACK:
        return fall_back(at)
    if operation.abort and step is not Step.STABLE:
        return give_up(step, f"aborted: {operation.abort}", untouched=Outcome.ABORTED)
    return _STEPS[step](at)


def _bundle(at: Observation) -> Decision:
    return say(Step.BUNDLE, Register(), "the release needs a number and its bundle a place")


def _standby(at: Observation) -> Decision:
    step, request = Step.STANDBY, at.operation.request
    warm = request.handover is Handover.WARM and not request.dry_run
    role = Role.CANDIDATE if warm else Role.DESCRIBER
    release = at.operation.done[Step.BUNDLE.label]["release"]
    name = instance_name(at.operation.operation, role)
    started = start(at, step, name, release, role)
    if started is not None:
        return started
    seen = at.of(name)
    if seen.described and release not in at.state.described:
        return say(step, RecordDescription(name), f"{name} has described {release}")
    if warm:
        return ready(at, step, name) or say(step, MarkDone(), f"{name} stands by")
    if not seen.described:
        return not_yet(at, step, name, "its description")
    return gathered(at, step, name) or say(step, MarkDone(), f"{release} is described")


def _assess(at: Observation) -> Decision:
    step, operation = Step.ASSESS, at.operation
    if operation.verdict is None:
        return say(step, Assess(), "the candidate is described")
    if operation.request.dry_run:
        return give_up(step, f"dry run: {operation.verdict_sentence}", untouched=Outcome.DRY_RUN)
    if operation.refusal or (operation.verdict is not Verdict.RESUME and not operation.ways):
        return give_up(step, operation.verdict_sentence)
    return say(step, MarkDone(), operation.verdict_sentence)


def _restore(at: Observation) -> Decision:
    return say(Step.RESTORE, RestoreVersions(), "the release goes back to its last batch")


def _go(at: Observation) -> Decision:
    step, operation = Step.GO, at.operation
    name = candidate_of(operation)
    release = operation.done[Step.BUNDLE.label]["release"]
    versions = {query: each.version for query, each in operation.ways.items() if each.version}
    sent = send_go(at, step, name, release, Role.CANDIDATE, versions)
    return sent or say(step, MarkDone(), f"{name} was told to go")


def _first_commit(at: Observation) -> Decision:
    step, limit = Step.FIRST_COMMIT, at.operation.request.first_commit_s
    name = candidate_of(at.operation)
    seen = at.of(name)
    if seen.first_triggers_done:
        return say(step, MarkDone(seen.lag), f"every query of {name} has completed a trigger")
    failure = seen.broken or failed_to_serve(at, name, limit, "first trigger")
    if failure:
        return give_up(step, failure)
    return say(step, Wait(f"{name}: first trigger", limit), f"{name} opens its checkpoints")


def _boundary(at: Observation) -> Decision:
    step, batches = Step.BOUNDARY, at.operation.done[Step.PROVE_DEAD.label]
    if not batches:
        return say(step, MarkDone(), "nothing was committed before")
    told = ", ".join(f"{query} at batch {batch}" for query, batch in sorted(batches.items()))
    return say(step, Preserve(), f"the boundary is {told}")


def _probation(at: Observation) -> Decision:
    step, operation, request = Step.PROBATION, at.operation, at.operation.request
    name = candidate_of(operation)
    seen = at.of(name)
    queries = frozenset(at.state.described[operation.done[Step.BUNDLE.label]["release"]])
    wanted = request.probation_batches + 1
    lagging = _lagging(operation.done[Step.FIRST_COMMIT.label], seen.lag)
    if seen.state is DriverState.FINISHED or (seen.triggers_of(queries) >= wanted and not lagging):
        return say(step, MarkDone(), f"{name} has held for {request.probation_batches} triggers")
    failure = seen.broken or failed_to_serve(at, name, request.probation_s, "probation")
    if failure:
        return give_up(step, f"{failure}; {lagging}" if lagging else failure)
    waiting = Wait(f"{name}: probation", request.probation_s)
    told = f"{name} has completed {seen.triggers_of(queries)} of {wanted} triggers"
    return say(step, waiting, f"{told}; {lagging}" if lagging else told)


def _lagging(first: dict[str, str], now: dict[str, str]) -> str:
    """Which query falls behind more and more; empty where none does, as far as their sources tell."""
    grown = [
        f"query {query} is {behind} records behind, {first[query]} at first"
        for query, behind in sorted(now.items())
        if query in first and int(behind) > max(LAG_GROWTH * int(first[query]), LAG_FLOOR)
    ]
    return "; ".join(grown)


def _stable(at: Observation) -> Decision:
    operation, state = at.operation, at.state
    name = candidate_of(operation)
    release = operation.done[Step.BUNDLE.label]["release"]
    if Step.STABLE.label in operation.done:
        told = f"{release} serves ({name}){_uncompared(operation)}{_unpreserved(operation)}"
        return say(Step.STABLE, Finish(Outcome.SUCCEEDED), told)
    if state.serving_instance != name:
        return say(Step.STABLE, Promote(name), f"{release} serves from here on")
    return say(Step.STABLE, MarkDone(), f"{release} serves")


def _uncompared(operation: OperationState) -> str:
    """That nobody has looked at a rebuilt output, for the operation's sentence."""
    rebuilt = sorted(query for query, each in operation.ways.items() if each.way is Way.REBUILD)
    if not rebuilt or operation.request.compare:
        return ""
    return f"; the rebuilt output of {', '.join(rebuilt)} was not compared, as it was asked for"


def _unpreserved(operation: OperationState) -> str:
    """What the snapshot of the boundary lacks, for the operation's sentence."""
    taken = operation.done.get(Step.BOUNDARY.label, {})
    lost = [f"{query}: {told}" for query, told in sorted(taken.items()) if told.startswith(NOT_TAKEN)]
    return f"; no snapshot of the boundary: {'; '.join(lost)}" if lost else ""


_STEPS = {
    Step.BUNDLE: _bundle,
    Step.STANDBY: _standby,
    Step.ASSESS: _assess,
    Step.BACKUP: back_up,
    Step.APPROVE: approve,
    Step.READY: get_ready,
    Step.SHADOW: shadow,
    Step.CATCH_UP: catch_up,
    Step.COMPARE: compare,
    Step.REVIEW: review,
    Step.DRAIN: drain,
    Step.PROVE_DEAD: prove_dead,
    Step.REACH: reach,
    Step.RESTORE: _restore,
    Step.GO: _go,
    Step.FIRST_COMMIT: _first_commit,
    Step.BOUNDARY: _boundary,
    Step.PROBATION: _probation,
    Step.STABLE: _stable,
}
