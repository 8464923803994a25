"""The assessment as a person reads it."""

from __future__ import annotations

from streamkeeper.model.finding import Assessment, Finding, QueryAssessment, Severity, Verdict
from streamkeeper.orchestration.report import render_findings


def test_findings_become_rows() -> None:
    """Every finding is one row, whatever characters its evidence holds."""
    finding = Finding(
        rule="grouping-keys-changed",
        severity=Severity.BREAKING,
        where="aggregate 0",
        evidence="customer -> a|b\nc",
        hint="switch",
    )
    query = QueryAssessment(verdict=Verdict.SWITCH, findings=(finding,))
    text = render_findings("SWITCH: it cannot carry over", Assessment(verdict=Verdict.SWITCH, queries={"q": query}))
    rows = [line for line in text.splitlines() if line.startswith("| q ")]
    assert rows == ["| q | grouping-keys-changed | breaking | aggregate 0: customer -> a\\|b c | switch |"]
    assert text.startswith("### SWITCH\n\nSWITCH: it cannot carry over\n")


def test_nothing_found_is_said() -> None:
    """An assessment without findings says so instead of showing an empty table."""
    text = render_findings("RESUME", Assessment(verdict=Verdict.RESUME, queries={}))
    assert "Nothing found" in text
    assert "|" not in text
