"""Buttons on a task's page in Airflow that open the operation's page, the report and the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

from streamkeeper.pages.page_address import page_address

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class PageLink(BaseOperatorLink):
    """Opens the page of the task's operation, or else of its job, or else the fleet page."""

    name = "Page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the page in the task's attribute ``page``; if it is empty, of the fleet page."""
        return page_address(conf.get("api", "base_url", fallback=""), getattr(operator, "page", ""))


class ReportLink(BaseOperatorLink):
    """Opens the report that this task made before any change, or else that of the reporting task in its task group."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the Airflow page with the results of the task that reports."""
        own = getattr(operator, "reports", False)
        return _page(ti_key, ti_key.task_id if own else _nearest(operator, "reports") or ti_key.task_id)


class OutcomeLink(BaseOperatorLink):
    """Opens the report on the end of the operation: outcome, verdict, handover, differences."""

    name = "Outcome"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the Airflow page with the results of the task that reports the operation's end.

        If there is no such task, the address is empty and Airflow shows no button.
        """
        ending = _nearest(operator, "ends")
        return _page(ti_key, ending) if ending else ""


def _nearest(operator: BaseOperator, what: str) -> str:
    """Return the id of the first task with the attribute ``what`` in the operator's task group, or else in an enclosing
    group.

    The result is empty if there is no such task.
    """
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
