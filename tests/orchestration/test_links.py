"""Where the buttons on a task's page lead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.airflow

DEPLOY = ["bundle", "assess", "finish"]
RECOVER = ["diagnose", "bundle", "assess", "finish"]


@pytest.mark.parametrize(
    ("beside", "task", "index", "report", "outcome"),
    [
        (DEPLOY, "bundle", -1, "assess/xcom", "finish/xcom"),
        (RECOVER, "bundle", -1, "diagnose/xcom", "finish/xcom"),
        (RECOVER, "assess", -1, "assess/xcom", "finish/xcom"),
        (["watch"], "watch", -1, "watch/xcom", ""),
        (["find", "drill"], "drill", 3, "drill/mapped/3/xcom", ""),
    ],
)
def test_a_task_leads_to_its_runs_report_and_outcome(
    monkeypatch: pytest.MonkeyPatch, beside: list[str], task: str, index: int, report: str, outcome: str
) -> None:
    """To the task that reports before anything is touched, and to the one that ends the run; no button to nowhere."""
    from streamkeeper.orchestration.links import OutcomeLink, ReportLink

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example/team/")
    operator: Any = SimpleNamespace(dag=SimpleNamespace(task_ids=beside))
    key: Any = SimpleNamespace(dag_id="d", run_id="manual__2026-11-23T10:00:00+00:00", task_id=task, map_index=index)
    tasks = "http://airflow.example/team/dags/d/runs/manual__2026-11-23T10%3A00%3A00%2B00%3A00/tasks/"
    assert ReportLink().get_link(operator, ti_key=key) == f"{tasks}{report}"
    assert OutcomeLink().get_link(operator, ti_key=key) == (outcome and f"{tasks}{outcome}")
