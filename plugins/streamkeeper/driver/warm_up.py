"""The standby's warm-up: the last batch of each live checkpoint again, on a clone, with the sink diverted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.job_loading import PlannedQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 120.0


def warm_up(spark: SparkSession, planned: Mapping[str, PlannedQuery], live: Mapping[str, str], scratch: Path) -> str:
    """What the warm-up found, one clause per query: ``ok: …``, or Spark's error class first. It never fails.

    ``live``: query -> checkpoint directory, as far as there is one.
    """
    told = []
    for name, each in planned.items():
        try:
            told.append(_rehearse(spark, each, live.get(name), scratch / name))
        except Exception as error:
            told.append(f"{describe_fault(error)} (query {name})")
    failed = [each for each in told if not each.startswith("ok: ")]
    return "; ".join(failed or told)


def _rehearse(spark: SparkSession, planned: PlannedQuery, live: str | None, scratch: Path) -> str:
    query = planned.query
    if live is not None and Path(live, "commits").is_dir():
        from streamkeeper.inspection.rehearsal import rehearse

        found = rehearse(spark, query, Path(live), scratch, timeout_s=TIMEOUT_S)
        if not found.ok:
            return f"{found.error_class}: {found.message} (query {query.name})"
        if found.batch is not None:
            return f"ok: {query.name} ran batch {found.batch} again in {found.seconds:.1f} s"
    query.sink.rehearse(spark.createDataFrame([], query.df.schema))
    return f"ok: {query.name} has no batch yet to run again"
