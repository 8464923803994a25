"""Values for the page of an operation: request, steps, findings and outcome. Pure.

Texts may come from any source. Secrets in them are masked, and templates escape the texts.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from streamkeeper.compatibility.report import strictest_first, told_way
from streamkeeper.lifecycle.approval_steps import answer_about
from streamkeeper.lifecycle.review import reasons_to_review
from streamkeeper.lifecycle.steps import current_step
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.journal_records import About, ApprovalAnswered, InstanceEnded, Outcome
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import Transition
from streamkeeper.model.redaction import Structure, change_texts
from streamkeeper.model.requests.asked_fields import asked_fields
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.approval import asked_about
from streamkeeper.operations.deploys.questions import told_way_back
from streamkeeper.operations.jobs.carriers import Carrier
from streamkeeper.operations.jobs.operation_record import OperationRecord
from streamkeeper.operations.jobs.sentences import kind_of
from streamkeeper.pages.parts import Mask, mask_of
from streamkeeper.pages.step_lines import Moments, StepLine, StepMark, find_moments, step_lines

_SHOWN_ELSEWHERE = frozenset({"job", "release", "params", "conf", "reason", "dry_run"})


class QueryLine(msgspec.Struct, frozen=True, kw_only=True):
    """One query of an operation."""

    query: Structure
    """The query's name."""
    verdict: Structure = ""
    """Its verdict; empty for a new query."""
    goes: str = ""
    """Its transition, as a phrase; empty if there is none."""
    back: str = ""
    """The cost of a rollback; empty if no rollback is possible."""
    new: bool = False
    """Whether the query is new, so that there is no earlier version to compare it with."""
    findings: tuple[Finding, ...] = ()
    """Its findings, the most severe first."""


class EndedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A driver whose termination the operation has recorded."""

    instance: Structure
    """Its id."""
    was: Structure
    """Its release and its role."""
    recorded_at: float | None
    """When the termination was recorded, seconds since 1970."""
    proof: str
    """The evidence."""
    exit: str
    """The last report of the driver."""


class AnswerLine(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer."""

    about: str
    """The subject of the question."""
    approved: bool
    """Whether the person approved."""
    by: str
    """The person's name."""
    reason: str
    """The person's reason."""
    recorded_at: float | None
    """When the answer was recorded, seconds since 1970; None if it was given together with the request."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The open question of an operation."""

    about: About
    """The subject."""
    why: tuple[str, ...]
    """The reasons."""
    asked: float | None
    """When it was asked, seconds since 1970."""
    due: float | None
    """When an unanswered question counts as declined, seconds since 1970, approximately."""


class ComparedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A rebuilt output compared with the current one."""

    query: Structure
    found: OutputComparison


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """One operation."""

    job: Structure
    """The job's name."""
    operation: Structure
    """The operation's id."""
    entry: int
    """The journal's newest entry number when it was read."""
    kind: Structure
    """deploy, rollback, start, or the action of a recovery."""
    dry_run: bool
    """Whether it is a dry run."""
    release: Structure
    """Its release."""
    before: Structure
    """The release that was current at its start."""
    asked_by: str
    """The author of the request."""
    reason: str
    """The reason of the request."""
    settings: tuple[tuple[str, str], ...]
    """Title and value of each field of the request that differs from its default."""
    announced: tuple[str, ...]
    """Announced effects of a recovery, per output."""
    moments: Moments
    """Its times."""
    steps: tuple[StepLine, ...]
    """Its steps."""
    step: Structure
    """Its current step; empty once the operation has finished."""
    outcome: Structure
    """Its outcome; empty while it is open."""
    sentence: str
    """The sentence that describes how the operation ended."""
    verdict: Structure
    """Its verdict."""
    decision: str
    """The sentence of the assessment."""
    unreadable: str
    """Why its report cannot be read; empty if it can."""
    queries: tuple[QueryLine, ...]
    """Its queries."""
    ended: tuple[EndedLine, ...]
    """The drivers whose termination the operation recorded."""
    question: Question | None
    """Its open question; None without one."""
    answers: tuple[AnswerLine, ...]
    """Answers that count."""
    compared: tuple[ComparedLine, ...]
    """Comparisons of rebuilt outputs."""
    given_up: str
    """Why the candidate was given up."""
    touched: bool
    """Whether the current driver was already affected."""
    aborted: str
    """Who requested its abort, and why; empty if it was not aborted."""
    carrier: Carrier | None
    """The run or process that executes it."""

    @property
    def is_open(self) -> bool:
        return not self.outcome

    @property
    def not_needed(self) -> tuple[str, ...]:
        """The steps that the operation's verdict does not need."""
        return tuple(line.label for line in self.steps if line.mark is StepMark.NOT_NEEDED)

    @property
    def tone(self) -> str:
        """The CSS class of the operation's outcome: good, warn or bad; empty while the operation is open."""
        return _TONES.get(self.outcome, "bad") if self.outcome else ""


_TONES = {
    Outcome.SUCCEEDED.value: "good",
    Outcome.DRY_RUN.value: "good",
    Outcome.FELL_BACK.value: "warn",
    Outcome.REFUSED.value: "warn",
    Outcome.ABORTED.value: "warn",
}


def mask_for(record: OperationRecord) -> Mask:
    """Return the mask for the secrets of the releases that the operation concerns."""
    releases = record.state.releases
    return mask_of(releases[name] for name in (record.before, record.operation.release) if name in releases)


def view_operation(record: OperationRecord) -> OperationView:
    """Return all values for the page of an operation, with secrets masked."""
    return change_texts(_view(record), mask_for(record))


def _view(record: OperationRecord) -> OperationView:
    operation, request = record.operation, record.operation.request
    moments = find_moments(record.entries, operation.operation)
    dry = operation.outcome_if_untouched is Outcome.DRY_RUN
    return OperationView(
        job=record.state.job,
        operation=operation.operation,
        entry=record.state.number,
        kind=kind_of(request),
        dry_run=request.dry_run,
        release=operation.release or request.release or "",
        before=record.before,
        asked_by=request.requested_by or "unknown",
        reason=request.reason or "no reason given",
        settings=tuple(_settings(request)),
        announced=request.recovery.announced if request.recovery is not None else (),
        moments=moments,
        steps=step_lines(record, moments),
        step=current_step(operation).label if operation.outcome is None else "",
        outcome=operation.outcome.value if operation.outcome is not None else "",
        sentence=operation.sentence,
        verdict=operation.verdict.name if operation.verdict is not None else "",
        decision=operation.verdict_sentence,
        unreadable=record.unreadable,
        queries=tuple(_queries(record)),
        ended=tuple(_ended(record)),
        question=_question(record, moments),
        answers=tuple(_answers(record)),
        compared=tuple(ComparedLine(query=query, found=found) for query, found in sorted(operation.compared.items())),
        given_up="" if dry else operation.fall_back,
        touched=operation.has_begun(Step.DRAIN),
        aborted=operation.abort,
        carrier=record.carrier,
    )


def _settings(request: DeployRequest) -> Iterator[tuple[str, str]]:
    """Yield title and value of each field that differs from its default, except params and conf."""
    usual = DeployRequest(job=request.job)
    for name, field in asked_fields(DeployRequest).items():
        value = getattr(request, name)
        if name not in _SHOWN_ELSEWHERE and value != getattr(usual, name):
            yield field.ask.title, _told(value)


def _told(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return str(getattr(value, "value", value))


def _queries(record: OperationRecord) -> Iterator[QueryLine]:
    operation = record.operation
    judged = record.assessment.queries if record.assessment is not None else {}
    for query in sorted({*operation.transitions, *judged}):
        way, found = operation.transitions.get(query), judged.get(query)
        new = way is not None and way.way is Transition.START
        yield QueryLine(
            query=query,
            verdict=found.verdict.name if found is not None and not new else "",
            goes=told_way(way) if way is not None else "",
            back=told_way_back(way, record.before) if way is not None and not new else "",
            new=new,
            findings=tuple(strictest_first(found)) if found is not None else (),
        )


def _ended(record: OperationRecord) -> Iterator[EndedLine]:
    instances, mine = record.state.instances, record.operation.operation
    for entry in record.entries:
        match entry.record:
            case InstanceEnded(operation=operation, instance=name, proof=proof, exit=last) if operation == mine:
                known = instances.get(name)
                if known is None:
                    continue
                was = known.role.value if known.operation == mine else "previous"
                yield EndedLine(
                    instance=name, was=f"{known.release}, {was}", recorded_at=entry.moment, proof=proof, exit=last
                )


_ASKED_AFTER = {About.STATE: (Step.KEEP_STATE,), About.OUTPUT: (Step.COMPARE, Step.CATCH_UP)}
"""Subject -> the steps after which a person is asked about the subject. The question is timed from the first of them
that is done.
"""


def _question(record: OperationRecord, moments: Moments) -> Question | None:
    operation = record.operation
    about = asked_about(operation)
    if about is None or answer_about(operation, about) is not None or operation.abort:
        return None
    asked = next((moments.done[step.tag] for step in _ASKED_AFTER[about] if step.tag in moments.done), None)
    return Question(
        about=about,
        why=reasons_to_review(operation) if about is About.OUTPUT else (operation.verdict_sentence,),
        asked=asked,
        due=None if asked is None else asked + operation.request.approve_s,
    )


_ABOUT = {About.STATE: "continuing from the state", About.OUTPUT: "the rebuilt output"}


def _answers(record: OperationRecord) -> Iterator[AnswerLine]:
    """Yield the answers that count, including a person's advance acceptance of the losses or duplicates of a
    recovery.
    """
    operation = record.operation
    recover = operation.request.recovery
    if recover is not None and recover.accepted_by:
        yield AnswerLine(
            about="loss or duplication by the recovery",
            approved=True,
            by=recover.accepted_by,
            reason=operation.request.reason,
            recorded_at=None,
        )
    for entry in record.entries:
        answer = entry.record
        if isinstance(answer, ApprovalAnswered) and _counts(operation, answer):
            yield AnswerLine(
                about=_ABOUT[answer.about],
                approved=answer.approved,
                by=answer.by,
                reason=answer.reason or "no reason given",
                recorded_at=entry.moment,
            )


def _counts(operation: OperationState, answer: ApprovalAnswered) -> bool:
    return answer.operation == operation.operation and answer == answer_about(operation, answer.about)
