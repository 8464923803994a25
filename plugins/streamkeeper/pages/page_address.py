"""The address of a job's or an operation's page in Airflow."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

PREFIX = "/streamkeeper"
"""The path at which Streamkeeper's page is mounted in Airflow's API server."""
ROUTE = "streamkeeper"
"""The route of the page's entry in Airflow's navigation bar."""


def page_path(job: str = "", operation: str = "") -> str:
    """Return the path below the mount: ``jobs/orders``, ``jobs/orders/operations/op-1``, or empty for the fleet."""
    if not job:
        return ""
    of_job = f"jobs/{quote(job, safe='')}"
    return f"{of_job}/operations/{quote(operation, safe='')}" if operation else of_job


def page_address(airflow: str, path: str = "") -> str:
    """Return the address at which Airflow shows one of Streamkeeper's pages in a frame.

    ``airflow``: Airflow's address; if empty, the result has no host. ``path``: from ``page_path``. The result contains
    the complete path of the page that is shown in the frame.
    """
    base = airflow.rstrip("/")
    return f"{base}/plugin/{ROUTE}{urlsplit(base).path}{PREFIX}/{path}"
