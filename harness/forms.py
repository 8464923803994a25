"""The values of the trigger form for deploys of the two jobs that read the producer's files."""

from __future__ import annotations

from typing import Any

from harness.places import WAREHOUSE_VARIABLE, Places
from harness.producer import EVENTS, SALES

SALES_TOTALS, EVENT_COPY = "sales_totals", "event_copy"
JOBS = (SALES_TOTALS, EVENT_COPY)
DAG, ROLLBACK_DAG = "streaming_deploy", "streaming_rollback"

CONF = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
}


def deploy_conf(places: Places, job: str, *, files_per_trigger: int, reason: str, **fields: Any) -> dict[str, Any]:
    """Return the values of the trigger form for a deploy of ``job``."""
    reads, writes = {
        SALES_TOTALS: (SALES, {"warehouse": f"secret://env/{WAREHOUSE_VARIABLE}"}),
        EVENT_COPY: (EVENTS, {"output": str(places.copies)}),
    }[job]
    params = {
        "input": str(places.input / reads),
        "files_per_trigger": files_per_trigger,
        "trigger": "1 second",
        **writes,
    }
    return {"job": job, "params": params, "conf": dict(CONF), "reason": reason, **fields}
