"""Renders an assessment as text and as Markdown: what changed, the verdict, what a deploy would do. Pure.

``decision``: the deploy's decision as it is recorded; ``transitions``: what the deploy does with each query. A check
has neither and describes the verdict in general.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import assert_never

from streamkeeper.model.manifests.finding import Assessment, Finding, QueryAssessment, Severity, Switch, Verdict
from streamkeeper.model.markdown_text import escaped, visible
from streamkeeper.model.records.transitions import QueryTransition, Transition

_SWITCHES: Mapping[Switch, str] = {
    Switch.POSSIBLE: "",
    Switch.WITHOUT_STATE: ", only with accept_state_loss",
    Switch.IMPOSSIBLE: ", not possible",
}
_UNFIT = "the change does not fit this checkpoint"
_NOT_CONTINUED: Mapping[Switch, str] = {
    Switch.POSSIBLE: f"{_UNFIT}, so a deploy switches to a new checkpoint version, as the findings describe",
    Switch.WITHOUT_STATE: f"{_UNFIT}, so a deploy is refused. With the option accept_state_loss it switches to a new "
    "checkpoint version, which starts with empty state, as the findings describe",
    Switch.IMPOSSIBLE: f"{_UNFIT}, and no new checkpoint version could replace it, so a deploy is refused. Revert the "
    "change; the findings name other ways, if there are any",
}
_NOT_KNOWN: Mapping[str, QueryTransition] = MappingProxyType({})


def render_text(
    assessment: Assessment, *, decision: str = "", transitions: Mapping[str, QueryTransition] = _NOT_KNOWN
) -> str:
    """Return the report as plain text, with a few lines per finding: rule and place, the effect of a resume, the
    change, the changed line, the remedy.

    ``decision``: the report's first line; if empty, the verdict. ``transitions``: for each query, how the deploy brings
    it to the new release.
    """
    lines = [decision or headline(assessment)]
    for name, query in sorted(assessment.queries.items()):
        same = not query.findings and not _begins(transitions.get(name))
        lines.append(f"query {name}: {_told(query, transitions.get(name))}{', nothing changed' if same else ''}")
        for finding in strictest_first(query):
            lines.append(f"  {finding.severity.value:8} {finding.rule}: {finding.where}")
            details = (
                ("on resume", finding.effect),
                ("change", finding.evidence),
                ("line", finding.line),
                (_hint_is(finding), finding.hint),
            )
            lines += [f"           {word + ':':11} {text}" for word, text in details if text]
    return visible("\n".join(lines) + "\n")


def render_markdown(
    assessment: Assessment, *, decision: str = "", transitions: Mapping[str, QueryTransition] = _NOT_KNOWN
) -> str:
    """Return the report as Markdown, with a table per query. The parameters are those of ``render_text``."""
    title, _, rest = (decision or headline(assessment)).partition(": ")
    lines = [f"## {escaped(title)}", "", *([escaped(rest), ""] if rest else [])]
    for name, query in sorted(assessment.queries.items()):
        lines += [f"### Query `{name}`: {escaped(_told(query, transitions.get(name)))}", ""]
        if query.findings:
            lines += _table(query)
        elif not _begins(transitions.get(name)):
            lines += ["Nothing changed.", ""]
    return "\n".join(lines)


def _begins(way: QueryTransition | None) -> bool:
    """Whether the deploy starts the query without a deployed query to compare it with."""
    return way is not None and way.way is Transition.START


def _told(query: QueryAssessment, way: QueryTransition | None) -> str:
    if way is None:
        return f"{query.verdict.name}{_SWITCHES[query.switch]}"
    # A rollback or a recovery leaves the checkpoint that its verdict is about.
    description = told_way(way)
    return description if _begins(way) or query.verdict is Verdict.REFUSE else f"{query.verdict.name}, {description}"


def told_way(way: QueryTransition) -> str:
    """Return a short text about how a deploy brings a query to the new release, such as ``resumes from v0002``."""
    match way.way:
        case Transition.START:
            return f"starts in {way.version}"
        case Transition.RESUME:
            return f"resumes from {way.version}"
        case Transition.HANDOFF:
            lost = ", without its state" if way.state_given_up else ""
            return f"handoff from {way.before} to {way.version}{lost}"
        case Transition.REBUILD:
            return f"rebuild in {way.version}, beside {way.before}"
        case Transition.RETURN:
            return f"returns from {way.before} to {way.version}"
        case Transition.RESTORE:
            return f"returns from {way.before} to batch {way.batch} ({way.snapshot}), as {way.version}"


def _hint_is(finding: Finding) -> str:
    """Return the label of the hint. The hint of a note is an explanation; the hint of any other finding is a remedy."""
    return "note" if finding.severity is Severity.NOTE else "how to fix"


def headline(assessment: Assessment) -> str:
    """Return the verdict on a job, and a sentence that states what it means for a deploy."""
    switches = [query.switch for query in assessment.queries.values()] or [Switch.POSSIBLE]
    strictest = max(switches, key=list(Switch).index) if assessment.verdict is Verdict.SWITCH else Switch.POSSIBLE
    return f"{assessment.verdict.name}{_SWITCHES[strictest]}: {sentence(assessment.verdict, strictest)}"


def sentence(verdict: Verdict, switch: Switch = Switch.POSSIBLE) -> str:
    """Return a sentence that states what the verdict means for a deploy. ``switch``: whether a SWITCH is possible."""
    match verdict:
        case Verdict.RESUME:
            return "the new release continues in the same checkpoint, after the old one has finished its batch"
        case Verdict.BACKUP:
            return (
                "Spark accepts the change, but no check can prove that state and output stay right: a deploy takes a "
                "snapshot and waits until a person approves"
            )
        case Verdict.SWITCH:
            return _NOT_CONTINUED[switch]
        case Verdict.REFUSE:
            return "a deploy changes nothing and is refused until every fatal finding is fixed"
        case _:
            assert_never(verdict)


def _table(query: QueryAssessment) -> Iterator[str]:
    yield "| severity | finding | where | effect of a resume | change | how to fix |"
    yield "|---|---|---|---|---|---|"
    for finding in strictest_first(query):
        cells = (", ".join(filter(None, (finding.where, finding.line))), finding.effect, finding.evidence, finding.hint)
        yield f"| {' | '.join((finding.severity.value, f'`{finding.rule}`', *map(escaped, cells)))} |"
    yield ""


_ORDER = (Severity.FATAL, Severity.BREAKING, Severity.OPAQUE, Severity.NOTE)


def strictest_first(query: QueryAssessment) -> list[Finding]:
    """Return the findings of a query, the most severe first."""
    return sorted(query.findings, key=lambda finding: _ORDER.index(finding.severity))
