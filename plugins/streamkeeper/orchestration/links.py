"""Buttons on a task's page: to the report of its run, and to what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class ReportLink(BaseOperatorLink):
    """What was found before anything was touched."""

    name = "Report"
    holders: ClassVar[tuple[str, ...]] = ("assess", "diagnose", "plan")

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of what the task that reports has left with the run; of the task itself where none does."""
        known = operator.dag.task_ids if operator.dag else []
        holder = next((each for each in self.holders if each in known), "")
        base = conf.get("api", "base_url", fallback="").rstrip("/")
        page = f"{base}/dags/{ti_key.dag_id}/runs/{quote(ti_key.run_id, safe='')}/tasks/{holder or ti_key.task_id}"
        index = -1 if holder or ti_key.map_index is None else ti_key.map_index
        return f"{page}/mapped/{index}/xcom" if index >= 0 else f"{page}/xcom"


class OutcomeLink(ReportLink):
    """What became of it: outcome, verdict, handover, rows that differ."""

    name = "Outcome"
    holders = ("finish",)
