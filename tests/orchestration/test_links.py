"""The targets of the buttons on a task's page."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.airflow

TASKS = "http://airflow.example/team/dags/d/runs/manual__2026-11-23T10%3A00%3A00%2B00%3A00/tasks/"


FLEET = "http://airflow.example/team/plugin/streamkeeper/team/streamkeeper/"


def links(operator: Any, index: int = -1) -> tuple[str, str]:
    """Return the targets of the buttons to the report and to the outcome on this task's page."""
    from airflow.sdk.types import TaskInstanceKey

    from streamkeeper.orchestration.links import OutcomeLink, ReportLink

    run = "manual__2026-11-23T10:00:00+00:00"
    key: Any = TaskInstanceKey(dag_id="d", run_id=run, task_id=operator.task_id, map_index=index, try_number=1)
    report, outcome = (link.get_link(operator, ti_key=key) for link in (ReportLink(), OutcomeLink()))
    return report.removeprefix(TASKS), outcome.removeprefix(TASKS)


@pytest.fixture
def dag(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A DAG to create tasks in, in an Airflow with its own address."""
    from airflow.sdk import DAG

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example/team/")
    monkeypatch.setenv("STREAMKEEPER_HOME", str(tmp_path))
    return DAG("d", schedule=None)


def page(operator: Any) -> str:
    """Return the target of the task's button to the fleet's page, as Airflow requests it after the task."""
    from airflow.sdk.types import TaskInstanceKey

    from streamkeeper.orchestration.links import PageLink

    key: Any = TaskInstanceKey(dag_id="d", run_id="r", task_id=operator.task_id, map_index=-1, try_number=1)
    assert any(isinstance(link, PageLink) for link in operator.operator_extra_links)
    return PageLink().get_link(operator, ti_key=key).removeprefix(FLEET)


def test_a_tasks_button_leads_to_the_page_of_its_operation_or_job(dag: Any) -> None:
    """A task's button leads to the page of its operation, its job or the fleet; a dry run, or a task without an
    operation, leads to the fleet's page.
    """
    from streamkeeper.errors import NotFound, StreamkeeperError
    from streamkeeper.model.records.step import Step
    from streamkeeper.orchestration.deploy_tasks import StepOperator
    from streamkeeper.orchestration.desired import StopOperator
    from streamkeeper.orchestration.watch_task import WatchOperator

    def step(name: str, **given: str) -> StepOperator:
        made = StepOperator(task_id=name, step=Step.STANDBY, **{"job": "orders", "operation": "op-1", **given})
        with suppress(StreamkeeperError):  # There is no such operation here.
            made.load()
        return made

    with dag:
        assert page(WatchOperator(task_id="watch")) == ""
        assert page(step("a")) == "jobs/orders/operations/op-1"
        assert page(step("b", tried_out="op-1")) == ""
        none = StepOperator(task_id="c", step=Step.STANDBY, job="orders", operation="")
        with pytest.raises(NotFound):
            none.load()
        assert page(none) == ""
        stop = StopOperator(task_id="stop", request={"job": "orders", "reason": "a test"})
        stop.asked({})
        assert page(stop) == "jobs/orders"


def test_a_tasks_buttons_lead_to_the_report_and_outcome_of_its_run(dag: Any) -> None:
    """A task's buttons lead to the task that reports before any change, or to itself if it makes the report, and to the
    task that finishes the run.
    """
    from streamkeeper.orchestration.deploy_graph import recovery_graph

    with dag:
        recovery_graph()
    for name in ("bundle", "takeover.handover", "choose"):
        assert links(dag.get_task(name)) == ("diagnose/xcom", "finish/xcom")
    assert links(dag.get_task("assess")) == ("assess/xcom", "finish/xcom")


def test_each_deploy_of_a_dag_has_links_to_its_own_tasks(dag: Any) -> None:
    """With two deploys in one DAG, the buttons of a task, even of a nested one, lead to the tasks of its own task
    group.
    """
    from streamkeeper.airflow_tasks import deploy_streaming_job

    with dag:
        for job in ("orders", "sales"):
            deploy_streaming_job(job, reason="a test")
    for name in ("deploy_sales.bundle", "deploy_sales.dual_run.shadow"):
        assert links(dag.get_task(name)) == ("deploy_sales.assess/xcom", "deploy_sales.finish/xcom")


def test_a_task_outside_a_deploy_links_only_to_its_own_report(dag: Any) -> None:
    """A task outside a deploy leads to its own report, a mapped one to its own instance, and has no button to an
    outcome.
    """
    from streamkeeper.orchestration.drill_task import DrillOperator
    from streamkeeper.orchestration.watch_task import WatchOperator

    with dag:
        watch, drill = WatchOperator(task_id="watch"), DrillOperator(task_id="drill", series="sales/totals")
    assert links(watch) == ("watch/xcom", "")
    assert links(drill, index=3) == ("drill/mapped/3/xcom", "")
