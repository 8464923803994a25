"""What a person reads in Airflow: the stored assessment, and the question of an approval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamkeeper.compatibility.report import render_markdown
from streamkeeper.lifecycle.steps import Step
from streamkeeper.model.coding import from_json
from streamkeeper.model.finding import Assessment
from streamkeeper.model.ways import QueryWay, Way

if TYPE_CHECKING:
    from streamkeeper.model.job_state import JobState, OperationState
    from streamkeeper.stores.contract import Store


def render_assessment(store: Store, job: str, operation: OperationState) -> str:
    """What the operation's verdict says, then what was found; raises RegistryDamaged when it cannot be read."""
    from streamkeeper.registry.objects import read_object

    data = read_object(store, job, "reports", operation.report, ".json")
    assessment = from_json(data, Assessment, where=f"report {operation.report}")
    return f"{render_markdown(assessment)}\n{operation.verdict_sentence}\n"


def render_question(store: Store, state: JobState, operation: OperationState) -> str:
    """All that a person needs to approve an opaque change: what is uncertain, what is kept, what a way back costs."""
    release = operation.done[Step.BUNDLE.label]["release"]
    kept = operation.done.get(Step.BACKUP.label, {})
    asked_by = f"{operation.request.requested_by or 'somebody'}: {operation.request.reason or 'no reason given'}"
    lines = [
        f"**{release}** is to take over from **{state.serving_release}**, asked for by {asked_by}.",
        "",
        render_assessment(store, state.job, operation),
        "### What is kept",
        "",
        *(f"- query `{query}`: snapshot `{name}`, under a hold" for query, name in sorted(kept.items())),
        "",
        "### What a way back costs",
        "",
        *(f"- query `{query}`: {told}" for query, told in _ways_back(state, operation)),
        "",
        f"From the command line: `streamkeeper approve {state.job} {operation.operation} --reason …`, or `decline`.",
    ]
    return "\n".join(lines)


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
