"""Questions to a person, with the stored assessment, the kept state, the differing outputs and the effects of the
answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from streamkeeper.compatibility.difference_markdown import render_differences
from streamkeeper.compatibility.differences import Difference, find_differences
from streamkeeper.compatibility.report import render_markdown
from streamkeeper.errors import KeyMissing, RegistryDamaged, StreamkeeperError
from streamkeeper.health.health_rule import tell_span
from streamkeeper.lifecycle.review import reasons_to_review
from streamkeeper.lifecycle.right_to_answer import right_to_answer
from streamkeeper.lifecycle.steps import current_step
from streamkeeper.model.markdown_text import escaped
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.watch.health import Urgency
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.operations.jobs.job_versions import released_version
from streamkeeper.operations.jobs.notices import Message, runbook_link
from streamkeeper.operations.jobs.observation import JobObservation
from streamkeeper.operations.jobs.overview import make_overview, told_error_of

if TYPE_CHECKING:
    from streamkeeper.model.records.job_state import JobState
    from streamkeeper.model.records.operation import OperationState
    from streamkeeper.operations.jobs.installation import Installation
    from streamkeeper.stores.contract import Store

LONGEST_ERROR = 700
MOST_LINES = 1_500
"""Limit of differing code lines on a page of Airflow."""


def render_assessment(store: Store, job: str, operation: OperationState) -> str:
    """Return the deploy's decision and the findings as Markdown; raises RegistryDamaged if the assessment cannot be
    read.
    """
    from streamkeeper.registry.objects import read_assessment

    assessment = read_assessment(store, job, operation.report)
    return render_markdown(assessment, decision=operation.verdict_sentence, transitions=operation.transitions)


def render_question(
    installation: Installation,
    state: JobState,
    operation: OperationState,
    *,
    until: datetime | None = None,
    whole: bool = False,
) -> str:
    """Return the whole question of an operation as Markdown; ``until``: when the question counts as declined.

    ``installation``, ``state`` and ``operation``: the operation that asks; ``whole``: whether all differing lines of
    code are shown, without a limit.
    """
    release, asked_by = operation.release, _asked_by(operation)
    about_output = current_step(operation) is Step.REVIEW
    lines = [
        f"**{release}** will replace **{state.predecessor}**, requested by {escaped(asked_by)}.",
        "",
        f"{escaped(_deadline(installation, state, operation, until))} May answer:"
        f" {escaped(who_may(installation, state, operation))}.",
        "",
        render_assessment(installation.store, state.job, operation),
        *(_rebuilt_outputs(operation) if about_output else _kept_state(operation)),
        "### Rollback cost",
        "",
        *(f"- query `{query}`: {escaped(text)}" for query, text in _ways_back(state, operation)),
        "",
        "### Code differences",
        "",
        _code_differences(installation, state, operation, most=sys.maxsize if whole else MOST_LINES),
        f"From the command line: `streamkeeper approve {state.job} {operation.operation}"
        f" --about {'output' if about_output else 'state'} --reason …`, or `decline`.",
    ]
    return "\n".join(lines)


def subject_of(state: JobState, operation: OperationState) -> str:
    """Return the operation's question as one line of text."""
    release = operation.release
    if current_step(operation) is Step.REVIEW:
        return f"Replace the output of {state.predecessor} of {state.job} with the rebuilt output of {release}?"
    return f"Let {release} of {state.job} continue with the state of {state.predecessor}?"


def compose_question(
    installation: Installation, state: JobState, operation: OperationState, *, until: datetime, link: str = ""
) -> Message:
    """Return the question as a message for notifiers, with its subject, deadline, rollback cost and address.

    ``installation``, ``state`` and ``operation``: the operation that asks; ``until``: when the question counts as
    declined; ``link``: the question's address, empty if unknown.
    """
    job, release = state.job, operation.release
    about_output = current_step(operation) is Step.REVIEW
    files = [
        difference.title for difference in find_code_differences(installation, state, state.serving_release, release)
    ]
    why = reasons_to_review(operation) if about_output else (operation.verdict_sentence,)
    lines = [
        f"{release} will replace {state.predecessor}, requested by {_asked_by(operation)}.",
        f"{_deadline(installation, state, operation, until)} May answer: {who_may(installation, state, operation)}.",
        "",
        *why,
        "",
        "Rollback cost:",
        *(f"- query {query}: {text}" for query, text in _ways_back(state, operation)),
        "",
        f"Code differences: {', '.join(files) or 'none'}.",
        "",
        *([f"Answer: {link}"] if link else []),
        f"For the full question, run `streamkeeper question {job} {operation.operation}`",
    ]
    heading = "A dual run waits for an answer about its output" if about_output else "A deploy waits for an approval"
    return Message(
        job=job,
        query="",
        rule="approval-waiting",
        severity=Urgency.TICKET.value,
        event="asked",
        subject=f"[approval] {subject_of(state, operation)}",
        text="\n".join(lines),
        runbook=runbook_link(heading),
    )


def _asked_by(operation: OperationState) -> str:
    return f"{operation.request.requested_by or 'an unknown user'}: {operation.request.reason or 'no reason given'}"


def _deadline(installation: Installation, state: JobState, operation: OperationState, until: datetime | None) -> str:
    by = f"{until.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if until else tell_span(operation.request.approve_s)
    when = f"by {by}" if until else f"within {by} of the question"
    return f"Without an answer {when}, the question counts as declined; {_if_declined(installation, state)}."


def _if_declined(installation: Installation, state: JobState) -> str:
    """Return what runs after a decline, according to the driver's current state, as a phrase."""
    if not state.serving_release:
        return "no release is running now, and none will run then"
    try:
        seen = make_overview(JobObservation(installation, state.job, state=state))
    except StreamkeeperError as error:
        return f"{state.serving_release} stays the current release; whether it is running is unknown: {error.message}"
    if seen.standing is JobStatus.SERVING:
        return f"{state.serving_release} keeps running"
    down = (
        "no driver is running now" if seen.life in (Life.DEAD, Life.ABSENT) else f"its driver is {seen.standing.value}"
    )
    reported = told_error_of(seen)
    why = f": {reported[:LONGEST_ERROR]}" if reported else ""
    return f"{state.serving_release} stays the current release, and {down}{why}"


def who_may(installation: Installation, state: JobState, operation: OperationState) -> str:
    """Return who may answer the operation's question, as a phrase."""
    return right_to_answer(installation.settings, state, operation.request.requested_by).sentence


def find_code_differences(
    installation: Installation, state: JobState, before: str, release: str
) -> tuple[Difference, ...]:
    """Return the differences of two releases in params, confs and files.

    The query plans are not compared. If the differences cannot be determined, return one entry with the reason.
    """
    if before not in state.releases:
        return (Difference(title="not known", note=f"{before or state.predecessor} is not recorded"),)
    try:
        versions = [released_version(installation, state, name) for name in (before, release)]
    except (RegistryDamaged, KeyMissing) as error:
        return (Difference(title="not known", note=str(error)),)
    without_plan = (msgspec.structs.replace(released, manifests={}) for released in versions)
    return find_differences(*without_plan)


def _code_differences(installation: Installation, state: JobState, operation: OperationState, *, most: int) -> str:
    shown: list[Difference] = []
    left = most
    for difference in find_code_differences(installation, state, state.serving_release, operation.release):
        over = len(difference.lines) - left
        if over > 0:
            note = f"for {over:,} more lines, run `streamkeeper question {state.job} {operation.operation}`"
            difference = msgspec.structs.replace(difference, lines=difference.lines[:left], note=note)
        left = max(0, left - len(difference.lines))
        shown.append(difference)
    return render_differences(shown, level=4) if shown else "Params, conf and code are identical.\n"


def _kept_state(operation: OperationState) -> Iterator[str]:
    if not operation.kept_state:
        return
    yield from ("### Kept state", "")
    for query, name in sorted(operation.kept_state.items()):
        yield f"- query `{query}`: snapshot `{name}`, under a hold"
    yield ""


def _rebuilt_outputs(operation: OperationState) -> Iterator[str]:
    """Yield Markdown lines with the reasons why an answer is needed, and the rows that differ for each query."""
    yield from ("### Why an answer is needed", "")
    yield from (f"- {escaped(reason)}" for reason in reasons_to_review(operation))
    yield ""
    for query, compared in sorted(operation.compared.items()):
        yield from (
            f"### Query `{query}`: the current output compared with the rebuilt one",
            "",
            escaped(compared.sentence),
            "",
        )
        if compared.sample:
            yield from ("| row | column | serving | rebuilt |", "|---|---|---|---|")
            yield from (f"| {' | '.join(map(escaped, row))} |" for row in compared.sample)
            yield ""


def _ways_back(state: JobState, operation: OperationState) -> Iterator[tuple[str, str]]:
    for query, way in sorted(operation.transitions.items()):
        if way.way is not Transition.START:
            yield query, told_way_back(way, state.predecessor)


def told_way_back(way: QueryTransition, serving: str) -> str:
    """Return what a rollback would cost for one query, as a phrase.

    ``serving``: the release that is current until the cutover, to which the rollback would return.
    """
    match way.back:
        case Transition.RESUME:
            return f"no rows are written again: {serving} resumes from the last commit of the new release"
        case Transition.RESTORE:
            return (
                f"{serving} returns to its last batch, from a snapshot;"
                " the input read since then is read and written again, and the new release's results for it are"
                " discarded"
            )
        case Transition.RETURN:
            return (
                f"{serving} returns to {way.before}, which is kept; the input read since then is read and written again"
            )
        case _:
            return f"rollback is NOT possible ({way.no_way_back}); only a new release can fix a problem"
