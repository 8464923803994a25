"""What a person is asked, and reads before an answer: the stored assessment, kept state, outputs that differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamkeeper.compatibility.report import render_markdown
from streamkeeper.lifecycle.review import reasons_to_review
from streamkeeper.lifecycle.steps import Step, current_step
from streamkeeper.model.coding import from_json
from streamkeeper.model.finding import Assessment
from streamkeeper.model.markdown_text import escaped
from streamkeeper.model.ways import QueryWay, Way

if TYPE_CHECKING:
    from streamkeeper.model.job_state import JobState, OperationState
    from streamkeeper.stores.contract import Store


def render_assessment(store: Store, job: str, operation: OperationState) -> str:
    """What the operation's verdict says, then what was found; raises RegistryDamaged when it cannot be read."""
    from streamkeeper.registry.objects import read_object

    data = read_object(store, job, "reports", operation.report, ".json")
    assessment = from_json(data, Assessment, where=f"report {operation.report}")
    return f"{render_markdown(assessment)}\n{escaped(operation.verdict_sentence)}\n"


def render_question(store: Store, state: JobState, operation: OperationState) -> str:
    """All that a person needs to answer what the operation asks."""
    release = operation.done[Step.BUNDLE.label]["release"]
    asked_by = f"{operation.request.requested_by or 'somebody'}: {operation.request.reason or 'no reason given'}"
    about_output = current_step(operation) is Step.REVIEW
    lines = [
        f"**{release}** is to take over from **{state.serving_release}**, asked for by {escaped(asked_by)}.",
        "",
        render_assessment(store, state.job, operation),
        *(_rebuilt_outputs(operation) if about_output else _kept_state(operation)),
        "### What a way back costs",
        "",
        *(f"- query `{query}`: {told}" for query, told in _ways_back(state, operation)),
        "",
        f"From the command line: `streamkeeper approve {state.job} {operation.operation}"
        f" --about {'output' if about_output else 'state'} --reason …`, or `decline`.",
    ]
    return "\n".join(lines)


def subject_of(state: JobState, operation: OperationState) -> str:
    """The question in one line."""
    release = operation.done[Step.BUNDLE.label]["release"]
    if current_step(operation) is Step.REVIEW:
        return f"Let the rebuilt output of {release} of {state.job} take the place of that of {state.serving_release}?"
    return f"Let {release} of {state.job} take over the state of {state.serving_release}?"


def _kept_state(operation: OperationState) -> Iterator[str]:
    yield from ("### What is kept", "")
    for query, name in sorted(operation.done.get(Step.BACKUP.label, {}).items()):
        yield f"- query `{query}`: snapshot `{name}`, under a hold"
    yield ""


def _rebuilt_outputs(operation: OperationState) -> Iterator[str]:
    """Why a person is asked, and the rows that differ."""
    yield from ("### Why you are asked", "")
    yield from (f"- {escaped(reason)}" for reason in reasons_to_review(operation))
    yield ""
    for query, compared in sorted(operation.compared.items()):
        yield from (
            f"### Query `{query}`: the serving output against the rebuilt one",
            "",
            escaped(compared.sentence),
            "",
        )
        if compared.sample:
            yield from ("| row | column | serving | rebuilt |", "|---|---|---|---|")
            yield from (f"| {' | '.join(map(escaped, row))} |" for row in compared.sample)
            yield ""


def _ways_back(state: JobState, operation: OperationState) -> Iterator[tuple[str, str]]:
    for query, way in sorted(operation.ways.items()):
        if way.way is not Way.START:
            yield query, _way_back(way, state.serving_release)


def _way_back(way: QueryWay, serving: str) -> str:
    match way.back:
        case Way.RESUME:
            return f"nothing is written again: {serving} goes on from the last commit of the new release"
        case Way.RESTORE:
            return (
                f"{serving} goes back to its last batch, by a snapshot;"
                " what was read since is read and written again, and what the new release made of it is given up"
            )
        case Way.RETURN:
            return f"{serving} goes back to {way.before}, which is kept; what was read since is read and written again"
        case _:
            return f"**there is none** ({way.no_way_back}); a new release would have to fix it"
