"""Where the buttons on a task's page lead."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.airflow

TASKS = "http://airflow.example/team/dags/d/runs/manual__2026-11-23T10%3A00%3A00%2B00%3A00/tasks/"


def links(operator: Any, index: int = -1) -> tuple[str, str]:
    """To the report and to the outcome, from the page of this task."""
    from airflow.sdk.types import TaskInstanceKey

    from streamkeeper.orchestration.links import OutcomeLink, ReportLink

    run = "manual__2026-11-23T10:00:00+00:00"
    key: Any = TaskInstanceKey(dag_id="d", run_id=run, task_id=operator.task_id, map_index=index, try_number=1)
    report, outcome = (link.get_link(operator, ti_key=key) for link in (ReportLink(), OutcomeLink()))
    return report.removeprefix(TASKS), outcome.removeprefix(TASKS)


@pytest.fixture
def dag(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Airflow with an address of its own, and a DAG to make tasks in."""
    from airflow.sdk import DAG

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example/team/")
    return DAG("d", schedule=None)


def test_a_task_leads_to_its_runs_report_and_outcome(dag: Any) -> None:
    """To the task that reports before anything is touched, unless it does so itself, and to the one that ends it."""
    from streamkeeper.orchestration.deploy_graph import recovery_graph

    with dag:
        recovery_graph()
    for name in ("bundle", "takeover.handover", "choose"):
        assert links(dag.get_task(name)) == ("diagnose/xcom", "finish/xcom")
    assert links(dag.get_task("assess")) == ("assess/xcom", "finish/xcom")


def test_each_deploy_of_a_dag_has_its_own(dag: Any) -> None:
    """A task group leads into itself, its inner ones as well; another one beside it is another deploy's."""
    from streamkeeper.airflow_tasks import deploy_streaming_job

    with dag:
        for job in ("orders", "sales"):
            deploy_streaming_job(job, reason="a test")
    for name in ("deploy_sales.bundle", "deploy_sales.dual_run.shadow"):
        assert links(dag.get_task(name)) == ("deploy_sales.assess/xcom", "deploy_sales.finish/xcom")


def test_a_task_alone_leads_to_itself_and_nowhere_else(dag: Any) -> None:
    """A mapped one to its own instance; no button to nowhere."""
    from streamkeeper.orchestration.drills import DrillOperator
    from streamkeeper.orchestration.watching import WatchOperator

    with dag:
        watch, drill = WatchOperator(task_id="watch"), DrillOperator(task_id="drill", series="sales/totals")
    assert links(watch) == ("watch/xcom", "")
    assert links(drill, index=3) == ("drill/mapped/3/xcom", "")
