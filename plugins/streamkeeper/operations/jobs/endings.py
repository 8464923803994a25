"""The result of an operation, as a value and as a page."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from streamkeeper.compatibility.report import told_way
from streamkeeper.model.markdown_text import escaped
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import Entry, InstanceEnded, StepBegun, StepDone
from streamkeeper.model.records.step import Step
from streamkeeper.operations.jobs.journal_entries import read_entries
from streamkeeper.registry.journal import Journal


class OperationEnding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one operation, or its progress."""

    job: str
    """The job."""
    operation: str
    """The operation's id."""
    release: str
    """The release of the operation."""
    outcome: str
    """The operation's outcome, or ``open``."""
    sentence: str
    """The outcome in words."""
    verdict: str = ""
    """The verdict's name; empty before the assessment."""
    decision: str = ""
    """The verdict and the operation's decision, in words."""
    queries: dict[str, str] = {}
    """Query -> its transition."""
    compared: dict[str, str] = {}
    """Query -> the comparison of its rebuilt output with the current one."""
    handover_s: float | None = None
    """Seconds from the order to drain until the first commit of every query; None if no driver was replaced."""


def read_ending(journal: Journal, operation: str) -> OperationEnding:
    """Return the result of an operation, or its progress."""
    state = journal.state()
    asked = state.operations[operation]
    return OperationEnding(
        job=state.job,
        operation=operation,
        release=asked.release,
        outcome=asked.outcome.value if asked.outcome is not None else "open",
        sentence=asked.sentence or asked.fall_back,
        verdict=asked.verdict.name if asked.verdict is not None else "",
        decision=asked.verdict_sentence,
        queries={query: told_way(way) for query, way in sorted(asked.transitions.items())},
        compared={query: comparison.sentence for query, comparison in sorted(asked.compared.items())},
        handover_s=handover_s(state, operation, read_entries(journal, asked.started, state.number)),
    )


def render_ending(ending: OperationEnding) -> str:
    """Return the result as Markdown."""
    rows = [
        ("job", ending.job),
        ("release", ending.release),
        ("verdict", ending.decision),
        *((f"query {query}", text) for query, text in ending.queries.items()),
        *((f"output of {query}", text) for query, text in ending.compared.items()),
        ("handover", "" if ending.handover_s is None else f"{ending.handover_s:.1f} s from drain to first commit"),
        ("operation", ending.operation),
    ]
    table = [f"| {name} | {escaped(text)} |" for name, text in rows if text]
    return "\n".join([f"## {ending.outcome}", "", escaped(ending.sentence), "", "| | |", "|---|---|", *table, ""])


def handover_s(state: JobState, operation: str, entries: Iterable[Entry]) -> float | None:
    """Return how many seconds an operation took to replace a driver; None if it has not replaced one.

    The time is measured from the order to drain the old driver until the first commit of every query with the new
    driver was observed. It is measured by the writers' clocks. ``entries``: the operation's journal entries.
    """
    drained = relieved = committed = None
    for entry in entries:
        match entry.record:
            case StepBegun(operation=mine, step=Step.DRAIN.tag) if mine == operation:
                drained = drained or entry.moment
            case InstanceEnded(operation=mine, instance=instance) if mine == operation:
                ended = state.instances.get(instance)
                relieved = relieved or (ended is not None and ended.appointed)
            case StepDone(operation=mine, step=Step.FIRST_COMMIT.tag) if mine == operation:
                committed = committed or entry.moment
    if not (drained and relieved and committed):
        return None
    return round(committed - drained, 1)
