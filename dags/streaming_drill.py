"""Drill snapshots every day, to prove that they can be restored before one is needed.

**find** lists the deployed queries. **drill** restores the newest snapshot of each into a scratch place, one at a time,
and the release that wrote it resumes the query there, with the sink diverted. A snapshot from which the query resumes
is verified, and a prune keeps the newest verified one. A newest snapshot that is already verified is skipped.

Above 500 queries, or Airflow's `core.max_map_length`, a task drills several queries, one after the other.

`STREAMKEEPER_DRILL_SCHEDULE` sets another schedule (cron, or `never`). Running jobs are not affected.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import chain, dag

from streamkeeper.orchestration.drill_task import LONGEST_DRILL, DrillOperator
from streamkeeper.orchestration.query_tasks import SERIES_SHOWN, FindOperator
from streamkeeper.orchestration.retrying import default_args
from streamkeeper.orchestration.schedules import read_schedule
from streamkeeper.orchestration.snapshot_forms import drill_form

JOBS = Path(os.environ.get("STREAMKEEPER_JOBS", "jobs"))


@dag(
    dag_display_name="Drill snapshots of streaming jobs",
    doc_md=__doc__,
    schedule=read_schedule("STREAMKEEPER_DRILL_SCHEDULE", "20 2 * * *"),
    catchup=False,
    max_active_runs=1,
    tags=["streaming", "snapshots"],
    params=drill_form(JOBS),
    default_args={**default_args(), "execution_timeout": LONGEST_DRILL},
)
def streaming_drill() -> None:
    find = FindOperator(task_id="find")
    # Each drill is a Spark driver of its own.
    drill = DrillOperator.partial(task_id="drill", map_index_template=SERIES_SHOWN, max_active_tis_per_dag=1).expand(
        series=find.output
    )
    chain(find, drill)


streaming_drill()
