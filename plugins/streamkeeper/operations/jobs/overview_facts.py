"""The overview of a job as named facts, for a terminal and for a page. The functions are pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from streamkeeper.model.protocol.driver_messages import SENTENCES
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import label_of
from streamkeeper.model.redaction import Structure
from streamkeeper.model.watch.fleet_words import tell_status
from streamkeeper.operations.jobs.overview import JobOverview
from streamkeeper.operations.jobs.sentences import render_record, render_request


class Tone(StrEnum):
    """The urgency of a fact for an operator on call."""

    PLAIN = ""
    WARN = "warn"
    BAD = "bad"


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a job's overview: a label and a value."""

    name: Structure
    """The label."""
    text: str
    """The value, unescaped."""
    tone: Tone = Tone.PLAIN
    """The urgency."""
    operation: Structure = ""
    """The operation that the fact is about; empty if the fact is not about an operation."""


def overview_facts(seen: JobOverview, *, beat: str) -> Iterator[Fact]:
    """Yield the facts of a job, except those of its queries. ``beat``: the heartbeat of the job's driver, in words."""
    yield Fact(name="job", text=f"{seen.job} (journal entry {seen.entry})")
    yield Fact(name="status", text=tell_status(seen.standing))
    yield Fact(name="release", text=seen.release or "-")
    yield from _driver(seen, beat)
    if seen.stopped is not None:
        yield Fact(name="stopped", text=render_record(seen.stopped))
    if seen.rebuilt:
        nothing = "" if seen.release else "; no driver runs until the job is deployed"
        yield Fact(name="journal", text=f"{seen.rebuilt}{nothing}")
    if seen.forgotten is not None:
        yield Fact(name="forgotten", text=render_record(seen.forgotten))
    yield from _troubles(seen)
    if seen.operation is not None:
        yield Fact(name="in progress", text=told_progress(seen.operation), operation=seen.operation.operation)
    for question in seen.asked:
        by = f"requested by {question.asked_by}; {question.may} may answer"
        yield Fact(name="waits for a person", text=f"{question.action}, {by}: {question.sentence}", tone=Tone.WARN)
    last = seen.last_operation
    if last is not None and last.outcome is not None:
        text = f"{last.operation} {last.outcome.value}: {last.sentence}"
        yield Fact(name="last operation", text=text, operation=last.operation)


def told_progress(operation: OperationState) -> str:
    """Return a sentence with the request and the completed steps of an open operation."""
    done = ", ".join(label_of(step) for step in operation.steps if step in operation.done) or "nothing yet"
    return f"{operation.operation}: {render_request(operation.request)}; done: {done}"


def _driver(seen: JobOverview, beat: str) -> Iterator[Fact]:
    if seen.instance:
        life = seen.life.value if seen.life else "-"
        yield Fact(name="driver", text=f"{seen.instance}: {life}, {seen.why}")
    if seen.unread:
        yield Fact(name="last report", text=seen.unread, tone=Tone.WARN)
    if seen.status is not None:
        report = f"{seen.status.state.value}: {SENTENCES[seen.status.state]}"
        yield Fact(name="last report", text=f"{report} (at {seen.status.at[:19]}, by the driver's clock)")
        yield Fact(name="heartbeat", text=beat)
        yield Fact(name="generation", text=str(seen.status.generation))


def _troubles(seen: JobOverview) -> Iterator[Fact]:
    driver = seen.reported
    if driver.waiting and driver.exit is None:
        yield Fact(name="waits", text=driver.waiting, tone=Tone.WARN)
    if driver.cause:
        yield Fact(name="cause", text=driver.cause)
    if driver.error:
        yield Fact(name="error", text=driver.error, tone=Tone.BAD)
