"""A diagnosis as a page: the cause, the evidence, and every action with its effects."""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.model.markdown_text import escaped
from streamkeeper.model.requests.diagnosis import Diagnosis, Option


def render_diagnosis(found: Diagnosis) -> str:
    """Return the diagnosis as Markdown, for a terminal and for a task's report."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Diagnosis) -> Iterator[str]:
    yield from (f"**{found.job}: {found.cause.value}.** {escaped(found.sentence)}", "")
    if found.advice:
        yield from (f"Advised: {escaped(found.advice)}.", "")
    if found.heading:
        yield from (f"Runbook: *{found.heading}*", "")
    if found.evidence:
        yield from ("### Evidence", "", *(f"- {escaped(line)}" for line in found.evidence), "")
    yield from ("### Actions", "")
    for option in found.options:
        yield from _option(option)


def _option(option: Option) -> Iterator[str]:
    if not option.possible:
        yield f"- **{option.action.value}**: not possible: {escaped(option.why_not)}"
        return
    person = " (a person has to accept it)" if option.asks else ""
    does = f"{option.does}; based on {', '.join(option.stands_on)}"
    yield f"- **{option.action.value}**{person}: {escaped(does)}"
    yield from (f"    - {escaped(price.sentence)}" for price in option.prices)
