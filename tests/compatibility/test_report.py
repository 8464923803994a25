"""Tests of an assessment as text and as Markdown."""

from __future__ import annotations

import msgspec

from streamkeeper.compatibility.assess import assess
from streamkeeper.compatibility.report import render_markdown, render_text, sentence
from streamkeeper.model.coding import from_json
from streamkeeper.model.manifests.finding import Assessment, Verdict
from streamkeeper.model.manifests.manifest import StateColumn
from streamkeeper.model.records.transitions import QueryTransition, Transition
from tests.compatibility.manifests import STATEFUL, changed, with_operator


def test_text_says_what_changed_the_verdict_and_what_the_deploy_would_do() -> None:
    """The text report contains the verdict, what the deploy would do, and each finding with its effect, evidence and
    hint.
    """
    values = (StateColumn(meaning="max(source 0.x)", type="long"),)
    new = changed(with_operator(STATEFUL, values=values), trigger="1 second")
    assert render_text(assess({"totals": STATEFUL}, {"totals": new})) == (
        "SWITCH: the change does not fit this checkpoint, so a deploy switches to a new checkpoint version, as the"
        " findings describe\nquery totals: SWITCH\n"
        "  breaking aggregate-function-changed: aggregation\n           on resume: "
        " Spark would reject the state, or the new function would continue from values of the old one: results would be"
        " wrong\n           change:     `sum(x)` → `max(x)`\n           how to fix: switch: a new checkpoint version"
        " reads the input again from where the current one began, builds the output anew, and takes over when it"
        " has caught up; or revert the change\n  note     trigger-changed: trigger\n           on resume:  batches"
        " would start at other times; the same rows would be written\n           change:     `5 seconds` → `1 second`\n"
        "           note:       no action is needed for this change alone if this is intended\n"
    )


def test_text_says_that_nothing_changed() -> None:
    """An unchanged query is one line with RESUME."""
    assert "query totals: RESUME, nothing changed\n" in render_text(assess({"totals": STATEFUL}, {"totals": STATEFUL}))


def test_a_deploy_report_states_its_decision_and_path() -> None:
    """A deploy's report states its decision and path: a first release starts in a new version without mention of a
    deployed one, and a requested rebuild is named as such.
    """
    same = assess({"totals": STATEFUL}, {"totals": STATEFUL})
    first = "r0001 is the first release: it starts in a new checkpoint version"
    ways = {"totals": QueryTransition(way=Transition.START, version="v0001")}
    assert render_text(same, decision=first, transitions=ways) == f"{first}\nquery totals: starts in v0001\n"
    assert render_markdown(same, decision=first, transitions=ways).splitlines() == [
        "## r0001 is the first release",
        "",
        "it starts in a new checkpoint version",
        "",
        "### Query `totals`: starts in v0001",
    ]
    asked = {"totals": QueryTransition(way=Transition.REBUILD, version="v0002", before="v0001")}
    told = render_text(same, decision="RESUME: query totals: rebuild in v0002, beside v0001", transitions=asked)
    assert "query totals: RESUME, rebuild in v0002, beside v0001, nothing changed\n" in told
    assert "the same checkpoint" in render_text(same)
    assert "the same checkpoint" not in told


def test_markdown_keeps_its_table_whole() -> None:
    """Pipes and line breaks in evidence are escaped, so that they do not break the Markdown table."""
    new = changed(STATEFUL, trigger="a|b\nc")
    text = render_markdown(assess({"totals": STATEFUL}, {"totals": new}))
    (row,) = [line for line in text.splitlines() if "trigger-changed" in line]
    assert row.endswith(r"| \`5 seconds\` → \`a\|b<br>c\` | no action is needed if this is intended |")


def test_angle_brackets_in_evidence_are_escaped_in_markdown() -> None:
    """Angle brackets in evidence, as in struct types, are escaped in Markdown."""
    new = changed(STATEFUL, trigger="struct<a: int> or x < 5")
    assert r"→ \`struct\<a: int> or x \< 5\`" in render_markdown(assess({"totals": STATEFUL}, {"totals": new}))


def test_an_older_report_without_effects_is_shown_without_that_line() -> None:
    """A stored report of an older release, whose findings have no effect, is shown without that line."""
    stored = {"rule": "old-rule", "severity": "note", "where": "w", "evidence": "a -> b"}
    older = {"verdict": 0, "queries": {"q": {"verdict": 0, "findings": [stored]}}}
    shown = from_json(msgspec.json.encode(older), Assessment, where="report")
    assert render_text(shown).endswith("  note     old-rule: w\n           change:     a -> b\n")


def test_every_verdict_says_what_the_deploy_would_do() -> None:
    """Every verdict has its own sentence."""
    assert len({sentence(verdict) for verdict in Verdict}) == len(Verdict)
