"""Buttons on a task's page: to the report of its run, and to what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

_REPORTING = ("diagnose", "assess", "plan")
_ENDING = "finish"


class ReportLink(BaseOperatorLink):
    """What was found before anything was touched; of a task that reports itself, or alone: its own."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page with what that task has left."""
        own, known = ti_key.task_id, _tasks_beside(operator)
        others = () if own in _REPORTING else _REPORTING
        return _page(ti_key, next((each for each in others if each in known), own))


class OutcomeLink(BaseOperatorLink):
    """What became of it: outcome, verdict, handover, what differed."""

    name = "Outcome"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page with what the run's last task has left; empty where a DAG has no such task: no button."""
        return _page(ti_key, _ENDING) if _ENDING in _tasks_beside(operator) else ""


def _tasks_beside(operator: BaseOperator) -> list[str]:
    return list(operator.dag.task_ids) if operator.dag else []


def _page(ti_key: TaskInstanceKey, task_id: str) -> str:
    base = conf.get("api", "base_url", fallback="").rstrip("/")
    page = f"{base}/dags/{ti_key.dag_id}/runs/{quote(ti_key.run_id, safe='')}/tasks/{task_id}"
    index = ti_key.map_index if task_id == ti_key.task_id and ti_key.map_index is not None else -1
    return f"{page}/mapped/{index}/xcom" if index >= 0 else f"{page}/xcom"
