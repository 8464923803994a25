"""The address of a job's or an operation's page in Airflow."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

PREFIX = "/streamkeeper"
"""The path at which the page is mounted in Airflow's API server."""
ROUTE = "streamkeeper"
"""The route of its entry in Airflow's bar."""


def page_path(job: str = "", operation: str = "") -> str:
    """The path below the mount: ``jobs/orders``, ``jobs/orders/operations/op-1``; empty for the fleet."""
    if not job:
        return ""
    of_job = f"jobs/{quote(job, safe='')}"
    return f"{of_job}/operations/{quote(operation, safe='')}" if operation else of_job


def page_address(airflow: str, path: str = "") -> str:
    """The address within Airflow's frame; ``airflow``: its address, or empty if unknown: then a path from its root.

    ``path``: from ``page_path``. The frame's address contains its page's path once more, in Airflow's form.
    """
    base = airflow.rstrip("/")
    return f"{base}/plugin/{ROUTE}{urlsplit(base).path}{PREFIX}/{path}"
