"""Tests of the findings that are drawn for a reader, and of how they are printed."""

from __future__ import annotations

import pytest

from conformance import findings
from conformance.findings import Recorded, draw, read_recorded, render_answer
from conformance.matrix.cases import CASES
from conformance.matrix.data import KAFKA


def test_a_seed_draws_the_same_findings_of_different_kinds() -> None:
    """A seed always draws the same findings, each of a different kind, and a different seed draws different ones;
    without Kafka no case with Kafka is drawn.
    """
    recorded = read_recorded()
    drawn = draw(recorded, 48, 30, kafka=True)
    assert drawn == draw(recorded, 48, 30, kafka=True)
    assert drawn != draw(recorded, 49, 30, kafka=True)
    assert len({each.recorded.kind for each in drawn}) == len(drawn) == 30
    assert all(each.case.data.form != KAFKA for each in draw(recorded, 48, 30, kafka=False))


def test_a_recorded_answer_to_a_removed_pair_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded answer to a pair that no longer exists is skipped."""
    known = next(iter(CASES))
    recorded = [Recorded("f1-000-99-no-such-edit", "v2", "a (note)"), Recorded(known, "v2", "b (note)")]
    assert [each.recorded.kind for each in draw(recorded, 1, 30, kafka=True)] == ["b (note)"]
    assert findings.RECORDS[0].name == "fuzz.jsonl"


def test_an_answer_is_printed_as_the_report_of_the_command() -> None:
    """An answer is printed as the command's report, or as the error of a check without a verdict."""
    finding = {"rule": "r", "severity": "breaking", "where": "w", "evidence": "e", "hint": "h", "effect": "f"}
    text = render_answer({"verdict": "SWITCH", "queries": {"q": {"verdict": "SWITCH", "findings": [finding]}}})
    assert text.splitlines()[1:] == [
        "query q: SWITCH",
        "  breaking r: w",
        "           on resume:  f",
        "           change:     e",
        "           how to fix: h",
    ]
    assert render_answer({"error": "no checkpoint"}) == "no checkpoint"


def test_the_heading_names_the_recorded_or_the_strictest_finding() -> None:
    """The heading names the recorded finding if the report contains it, and otherwise the report's strictest
    finding.
    """
    calm, strict = {"rule": "calm", "severity": "note"}, {"rule": "strict", "severity": "breaking"}
    answer = {"queries": {"q": {"findings": [calm, strict]}}}
    kinds = [findings.kind_of(Recorded("id", "v2", kind), answer) for kind in ("calm (note)", "gone (breaking)")]
    assert kinds == ["calm (note)", "strict (breaking)"]
    assert findings.kind_of(Recorded("id", "v2", "a (note)"), {"error": "no checkpoint"}) == "a (note)"
