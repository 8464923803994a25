"""The two jobs as the demo deploys them: the params of each release, and the edit that makes the second one."""

from __future__ import annotations

from typing import Any

from demo.places import WAREHOUSE_VARIABLE, Places
from demo.producer import EVENTS, SALES
from streamkeeper.errors import InvalidInput

SALES_TOTALS, EVENT_COPY = "sales_totals", "event_copy"
JOBS = (SALES_TOTALS, EVENT_COPY)
DAG = "streaming_deploy"

_CONF = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
}
_FILTER = 'F.col("event_id").isNotNull()'
_STRICTER = '(F.col("event_id").isNotNull() & (F.col("amount") > 0))'


def deploy_conf(places: Places, job: str, *, files_per_trigger: int, reason: str, **fields: Any) -> dict[str, Any]:
    """What the trigger form would hold for a deploy of ``job``."""
    reads, writes = {
        SALES_TOTALS: (SALES, {"warehouse": f"secret://env/{WAREHOUSE_VARIABLE}"}),
        EVENT_COPY: (EVENTS, {"output": str(places.copies)}),
    }[job]
    params = {
        "input": str(places.input / reads),
        "files_per_trigger": files_per_trigger,
        "trigger": "500 milliseconds",
        **writes,
    }
    return {"job": job, "params": params, "conf": dict(_CONF), "reason": reason, **fields}


def edit_event_copy(places: Places) -> str:
    """Change the copy of event_copy compatibly: a stricter filter that every event passes. Returns what it did."""
    file = places.jobs / f"{EVENT_COPY}.py"
    text = file.read_text()
    if text.count(_FILTER) != 1:
        raise InvalidInput(f"{file} does not hold {_FILTER} once", hint="the demo's edit and the job went apart")
    file.write_text(text.replace(_FILTER, _STRICTER))
    return "event_copy.py filters on amount > 0 too"
