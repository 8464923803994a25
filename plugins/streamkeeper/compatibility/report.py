"""An assessment for people: what changed, the verdict, what the deploy would do. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from streamkeeper.model.finding import Assessment, Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.markdown_text import escaped, visible


def render_text(assessment: Assessment) -> str:
    """Plain text, a few lines per finding: what and where, what a resume would do, the change, the way."""
    lines = [f"{assessment.verdict.name}: {sentence(assessment.verdict)}"]
    for name, query in sorted(assessment.queries.items()):
        lines.append(f"query {name}: {query.verdict.name}{'' if query.findings else ', nothing changed'}")
        for finding in _strictest_first(query):
            lines.append(f"  {finding.severity.value:8} {finding.rule}: {finding.where}")
            told = (
                ("on resume", finding.effect),
                ("change", finding.evidence),
                ("line", finding.line),
                (_hint_is(finding), finding.hint),
            )
            lines += [f"           {word + ':':10} {text}" for word, text in told if text]
    return visible("\n".join(lines) + "\n")


def render_markdown(assessment: Assessment) -> str:
    """Markdown with a table per query."""
    lines = [f"## {assessment.verdict.name}", "", sentence(assessment.verdict), ""]
    for name, query in sorted(assessment.queries.items()):
        lines += [f"### Query `{name}`: {query.verdict.name}", ""]
        lines += list(_table(query)) if query.findings else ["Nothing changed.", ""]
    return "\n".join(lines)


def _hint_is(finding: Finding) -> str:
    """A note asks for no way: it explains."""
    return "note" if finding.severity is Severity.NOTE else "way"


def sentence(verdict: Verdict) -> str:
    """What the deploy would do."""
    match verdict:
        case Verdict.RESUME:
            return "the new release goes on from the same checkpoint: standby, drain the old one, go"
        case Verdict.BACKUP:
            return "Spark will take the change, but nothing can prove its meaning: snapshot first, a person approves"
        case Verdict.SWITCH:
            return "state or offsets cannot carry over: a new checkpoint version takes the place of this one"
        case Verdict.REFUSE:
            return "there is no safe way: nothing is touched"
        case _:
            assert_never(verdict)


def _table(query: QueryAssessment) -> Iterator[str]:
    yield "| severity | finding | where | what a resume would do | before -> after | the way, and what it costs |"
    yield "|---|---|---|---|---|---|"
    for each in _strictest_first(query):
        told = (", ".join(filter(None, (each.where, each.line))), each.effect, each.evidence, each.hint)
        yield f"| {' | '.join((each.severity.value, f'`{each.rule}`', *map(escaped, told)))} |"
    yield ""


_ORDER = (Severity.FATAL, Severity.BREAKING, Severity.OPAQUE, Severity.NOTE)


def _strictest_first(query: QueryAssessment) -> list[Finding]:
    return sorted(query.findings, key=lambda each: _ORDER.index(each.severity))
