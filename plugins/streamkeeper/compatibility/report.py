"""An assessment for people: what changed, the verdict, what the deploy would do. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from streamkeeper.model.finding import Assessment, Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.markdown_text import escaped, visible


def render_text(assessment: Assessment) -> str:
    """Plain text, a line per finding."""
    lines = [f"{assessment.verdict.name}: {sentence(assessment.verdict)}"]
    for name, query in sorted(assessment.queries.items()):
        lines.append(f"query {name}: {query.verdict.name}{'' if query.findings else ', nothing changed'}")
        for finding in _strictest_first(query):
            lines.append(f"  {finding.severity.value:8} {finding.rule}: {finding.where}: {finding.evidence}")
            if finding.hint:
                lines.append(f"           {finding.hint}")
    return visible("\n".join(lines) + "\n")


def render_markdown(assessment: Assessment) -> str:
    """Markdown with a table per query."""
    lines = [f"## {assessment.verdict.name}", "", sentence(assessment.verdict), ""]
    for name, query in sorted(assessment.queries.items()):
        lines += [f"### Query `{name}`: {query.verdict.name}", ""]
        lines += list(_table(query)) if query.findings else ["Nothing changed.", ""]
    return "\n".join(lines)


def sentence(verdict: Verdict) -> str:
    """What the deploy would do."""
    match verdict:
        case Verdict.RESUME:
            return "the new release goes on from the same checkpoint: standby, drain the old one, go"
        case Verdict.BACKUP:
            return "Spark will take the change, but nothing can prove its meaning: snapshot first, a person approves"
        case Verdict.SWITCH:
            return "state or offsets cannot carry over: a new checkpoint version is needed"
        case Verdict.REFUSE:
            return "there is no safe way: nothing is touched"
        case _:
            assert_never(verdict)


def _table(query: QueryAssessment) -> Iterator[str]:
    yield "| severity | finding | where | before -> after | what to do |"
    yield "|---|---|---|---|---|"
    for each in _strictest_first(query):
        cells = (each.severity.value, f"`{each.rule}`", *map(escaped, (each.where, each.evidence, each.hint)))
        yield f"| {' | '.join(cells)} |"
    yield ""


_ORDER = (Severity.FATAL, Severity.BREAKING, Severity.OPAQUE, Severity.NOTE)


def _strictest_first(query: QueryAssessment) -> list[Finding]:
    return sorted(query.findings, key=lambda each: _ORDER.index(each.severity))
