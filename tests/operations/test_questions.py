"""The assessment as a person reads it in Airflow."""

from __future__ import annotations

from pathlib import Path

from streamkeeper.model.coding import to_json
from streamkeeper.model.finding import Assessment, Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.job_state import OperationState
from streamkeeper.model.journal import DeployRequest
from streamkeeper.operations.questions import render_assessment
from streamkeeper.registry.objects import put_object
from streamkeeper.stores.local import LocalStore


def test_the_report_is_the_stored_assessment_and_its_sentence(tmp_path: Path) -> None:
    """What the deploy decided on is what is shown: verdict, finding and the operation's own words."""
    finding = Finding(rule="grouping-keys-changed", severity=Severity.BREAKING, where="totals", evidence="a -> b")
    query = QueryAssessment(verdict=Verdict.SWITCH, findings=(finding,))
    assessment = Assessment(verdict=Verdict.SWITCH, queries={"totals": query})
    store = LocalStore(tmp_path)
    operation = OperationState(
        operation="op",
        request=DeployRequest(job="sales_totals"),
        steps=(),
        started=1,
        verdict_sentence="SWITCH: totals: grouping-keys-changed",
        report=put_object(store, "sales_totals", "reports", to_json(assessment), ".json"),
    )
    text = render_assessment(store, "sales_totals", operation)
    assert text.startswith("## SWITCH")
    assert "`grouping-keys-changed`" in text
    assert text.endswith("SWITCH: totals: grouping-keys-changed\n")
