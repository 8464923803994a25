"""The steps of an operation for its page: done, in progress with a deadline, or pending. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from streamkeeper.lifecycle.steps import PlannedStep, current_step, path, plan_deploy
from streamkeeper.model.records.journal_records import (
    Assessed,
    Entry,
    FallBackDecided,
    OperationFinished,
    OperationStarted,
    Outcome,
    StepBegun,
    StepDone,
)
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import CutoverSnapshots
from streamkeeper.model.redaction import Structure
from streamkeeper.operations.jobs.operation_record import OperationRecord


class StepMark(Enum):
    """The state of a step."""

    DONE = "done"
    UNDER_WAY = "under way"
    ASKS = "waits for a person"
    TO_COME = "to come"
    NOT_NEEDED = "not needed"
    GIVEN_UP = "given up"
    NOT_REACHED = "not reached"


class StepLine(msgspec.Struct, frozen=True, kw_only=True):
    """One step. Times are seconds since 1970 by the clock of the process that recorded them; None if unknown."""

    label: Structure
    """The step."""
    does: str
    """Its action."""
    mark: StepMark
    """Its state."""
    began: float | None = None
    """The recorded start of the step; without one, the end of the previous step."""
    done: float | None = None
    """Its end."""
    due: float | None = None
    """The deadline of a step in progress, after which ``otherwise`` happens."""
    deadline_s: float | None = None
    """How long it may take, seconds."""
    otherwise: str = ""
    """What happens if the step misses its deadline."""
    result: str = ""
    """Its result."""

    @property
    def took_s(self) -> float | None:
        """Duration of the step in seconds; None unless the step has ended."""
        return None if self.began is None or self.done is None else max(0.0, self.done - self.began)


class Moments(msgspec.Struct, frozen=True, kw_only=True):
    """The times of an operation and, by step tag, of its steps; in seconds since 1970."""

    started: float | None = None
    """Its start."""
    finished: float | None = None
    """Its end."""
    given_up: float | None = None
    """When the candidate was given up."""
    begun: dict[str, float] = {}
    """Tag -> recorded start of a step."""
    done: dict[str, float] = {}
    """Tag -> end of a step."""


def find_moments(entries: Iterable[Entry], operation: str) -> Moments:
    """Return the times of one operation. If the journal has several records of the same event, the first of them
    counts.
    """
    whole: dict[str, float] = {}
    begun: dict[str, float] = {}
    done: dict[str, float] = {}
    for entry in entries:
        moment = entry.moment
        if moment is None:
            continue
        match entry.record:
            case OperationStarted(operation=mine) if mine == operation:
                whole.setdefault("started", moment)
            case StepBegun(operation=mine, step=step) if mine == operation:
                begun.setdefault(step, moment)
            case StepDone(operation=mine, step=step) if mine == operation:
                done.setdefault(step, moment)
            case Assessed(operation=mine) if mine == operation:
                done.setdefault(Step.ASSESS.tag, moment)
            case FallBackDecided(operation=mine) if mine == operation:
                whole.setdefault("given_up", moment)
            case OperationFinished(operation=mine) if mine == operation:
                whole.setdefault("finished", moment)
    return Moments(**whole, begun=begun, done=done)


def step_lines(record: OperationRecord, moments: Moments) -> tuple[StepLine, ...]:
    """Return the steps that the operation announced, in order, and, if there was one, the automatic rollback."""
    operation, state = record.operation, record.state
    stopped = state.stopped if operation.outcome is None else None
    lines: list[StepLine] = []
    began = moments.started
    for planned in plan_deploy(operation.request, serving=record.before, stopped=stopped):
        step = planned.step
        if step.tag not in operation.steps and not operation.has_done(step):
            continue
        lines.append(_line(operation, planned, moments.begun.get(step.tag, began), moments))
        began = moments.done.get(step.tag, began)
    if operation.fall_back and operation.outcome_if_untouched is not Outcome.DRY_RUN:
        lines.append(_way_back(record, moments))
    return tuple(lines)


def _line(operation: OperationState, planned: PlannedStep, began: float | None, moments: Moments) -> StepLine:
    mark = _mark(operation, planned.step)
    live = mark in (StepMark.UNDER_WAY, StepMark.ASKS)
    done = {StepMark.DONE: moments.done.get(planned.step.tag), StepMark.GIVEN_UP: moments.given_up}.get(mark)
    return StepLine(
        label=planned.step.label,
        does=planned.does,
        mark=mark,
        began=began if live or done is not None else None,
        done=done,
        due=began + planned.deadline_s if live and began is not None else None,
        deadline_s=planned.deadline_s,
        otherwise=planned.otherwise,
        result=_left(operation, planned.step) if mark is StepMark.DONE else "",
    )


def _mark(operation: OperationState, step: Step) -> StepMark:
    over = operation.outcome is not None or bool(operation.fall_back)
    if operation.has_done(step) or (step is Step.ASSESS and _is_looked_at(operation)):
        return StepMark.DONE
    if step not in path(operation):
        return StepMark.NOT_NEEDED if over or _is_settled(operation, step) else StepMark.TO_COME
    if not over:
        if step is not current_step(operation):
            return StepMark.TO_COME
        return StepMark.ASKS if step in (Step.APPROVE, Step.REVIEW) else StepMark.UNDER_WAY
    first = next(each for each in path(operation) if not operation.has_done(each))
    return StepMark.GIVEN_UP if step is first and operation.fall_back else StepMark.NOT_REACHED


def _is_looked_at(operation: OperationState) -> bool:
    """Whether a dry run has completed its assessment. A dry run does not record the assessment as a step."""
    return operation.verdict is not None and operation.outcome_if_untouched is Outcome.DRY_RUN


def _is_settled(operation: OperationState, step: Step) -> bool:
    """Whether it is certain that an open operation does not need the step."""
    if operation.verdict is None:
        return False
    on_path = path(operation)
    still_compares = Step.COMPARE in on_path and not operation.has_done(Step.COMPARE)
    return not (step is Step.REVIEW and still_compares)


def _way_back(record: OperationRecord, moments: Moments) -> StepLine:
    operation, before = record.operation, record.before
    if operation.has_begun(Step.DRAIN) and before:
        does = f"end the candidate and start {before} again, by the assessed rollback path"
    else:
        does = f"end the candidate; {before} stays current, unaffected" if before else "end the candidate"
    over = operation.outcome is not None
    return StepLine(
        label=Step.FALL_BACK.label,
        does=does,
        mark=StepMark.DONE if over else StepMark.UNDER_WAY,
        began=moments.given_up,
        done=moments.finished if over else None,
    )


def _left(operation: OperationState, step: Step) -> str:
    """Return the result of a step as a phrase; empty without a result."""
    match step:
        case Step.BUNDLE:
            return operation.release
        case Step.KEEP_STATE:
            return _named(operation.kept_state)
        case Step.COMPARE:
            return _named({query: found.sentence for query, found in operation.compared.items()})
        case Step.PROVE_DEAD:
            return _named({query: f"batch {batch}" for query, batch in operation.last_batches.items()})
        case Step.SNAPSHOT:
            return _told_snapshots(operation.cutover_snapshots)
        case _:
            return ""


def _told_snapshots(snapshots: CutoverSnapshots) -> str:
    failed = {query: f"none: {why}" for query, why in snapshots.failed.items()}
    return _named({**snapshots.taken, **failed})


def _named(of_query: dict[str, str]) -> str:
    return ", ".join(f"{query}: {text}" for query, text in sorted(of_query.items()))
