"""Where in Airflow the page of a job or of an operation is."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

PREFIX = "/streamkeeper"
"""Where the page is mounted in Airflow's API server."""
ROUTE = "streamkeeper"
"""Of its entry in Airflow's bar."""


def page_path(job: str = "", operation: str = "") -> str:
    """Below where it is mounted: ``jobs/orders``, ``jobs/orders/operations/op-1``; empty for the fleet."""
    if not job:
        return ""
    of_job = f"jobs/{quote(job, safe='')}"
    return f"{of_job}/operations/{quote(operation, safe='')}" if operation else of_job


def page_address(airflow: str, path: str = "") -> str:
    """In Airflow's own frame; ``airflow``: its address, or empty where it does not know it: the way from its root.

    ``path``: as ``page_path`` gives it. The frame has its page's path again in its address, as Airflow writes it.
    """
    base = airflow.rstrip("/")
    return f"{base}/plugin/{ROUTE}{urlsplit(base).path}{PREFIX}/{path}"
