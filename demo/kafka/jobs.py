"""The two jobs that read the topic: their trigger forms, and the edit that makes another release of one of them."""

from __future__ import annotations

from typing import Any

from demo.releases import Edit
from harness.forms import CONF
from harness.places import WAREHOUSE_VARIABLE

EVENT_COUNTS, EVENT_TABLE = "event_counts", "event_table"
JOBS = (EVENT_COUNTS, EVENT_TABLE)
TOPIC = "events"

WITH_LARGEST = Edit(
    job=EVENT_COUNTS,
    description="the largest amount of each minute is kept too",
    replaces=(
        ('F.sum("amount").alias("amount"))', 'F.sum("amount").alias("amount"), F.max("amount").alias("largest"))'),
        ('"events", "amount")', '"events", "amount", "largest")'),
    ),
)


def form(servers: str, job: str, *, per_trigger: int, reason: str, **fields: Any) -> dict[str, Any]:
    """Return the values of the trigger form for a deploy of ``job``, including the job's own ``conf``."""
    params = {
        "servers": servers,
        "topic": TOPIC,
        "warehouse": f"secret://env/{WAREHOUSE_VARIABLE}",
        "max_offsets_per_trigger": per_trigger,
        "trigger": "1 second",
    }
    return {"job": job, "params": params, "conf": dict(CONF), "reason": reason, **fields}
