"""Buttons on a task's page: to the page of its operation, to the report, and to what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

from streamkeeper.page_address import page_address

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class PageLink(BaseOperatorLink):
    """The page of the operation that the task is a part of; of another task that of its job, or of the fleet."""

    name = "Page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Where what the task has shown is to be seen; the fleet's page for one that came to nothing."""
        return page_address(conf.get("api", "base_url", fallback=""), getattr(operator, "page", ""))


class ReportLink(BaseOperatorLink):
    """What was found before anything was touched; of a task that reports itself, or alone: its own."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page with what that task has left."""
        own = getattr(operator, "reports", False)
        return _page(ti_key, ti_key.task_id if own else _nearest(operator, "reports") or ti_key.task_id)


class OutcomeLink(BaseOperatorLink):
    """What became of it: outcome, verdict, handover, what differed."""

    name = "Outcome"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page with what the operation's last task has left; empty where there is no such task: no button."""
        ending = _nearest(operator, "ends")
        return _page(ti_key, ending) if ending else ""


def _nearest(operator: BaseOperator, what: str) -> str:
    """The first task that does this in the operator's own task group, or the next one around it; empty for none."""
    group = operator.task_group
    while group is not None:
        for name, child in group.children.items():
            if getattr(child, what, False):
                return str(name)
        group = group.parent_group
    return ""


def _page(ti_key: TaskInstanceKey, task_id: str) -> str:
    base = conf.get("api", "base_url", fallback="").rstrip("/")
    page = f"{base}/dags/{ti_key.dag_id}/runs/{quote(ti_key.run_id, safe='')}/tasks/{task_id}"
    index = ti_key.map_index if task_id == ti_key.task_id and ti_key.map_index is not None else -1
    return f"{page}/mapped/{index}/xcom" if index >= 0 else f"{page}/xcom"
