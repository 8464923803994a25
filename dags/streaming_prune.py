"""Prune snapshots and checkpoints of streaming jobs every day: delete everything that no rule keeps.

**plan** lists for every snapshot the reason why it is kept or deleted, and for every pack and checkpoint directory the
parts that would be removed. It removes nothing. **prune** makes a new plan, because a driver or a backup may have
continued, and carries it out. Anything that cannot be planned or removed fails the run after all other work is done.

`STREAMKEEPER_PRUNE_SCHEDULE` sets another schedule (cron, or `never`), `STREAMKEEPER_KEEP` the installation's policy.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import chain, dag

from streamkeeper.orchestration.prunes import LONGEST_PRUNE, PlanPruneOperator, PruneOperator
from streamkeeper.orchestration.retrying import default_args
from streamkeeper.orchestration.schedules import read_schedule
from streamkeeper.orchestration.snapshot_forms import prune_form

JOBS = Path(os.environ.get("STREAMKEEPER_JOBS", "jobs"))


@dag(
    dag_display_name="Prune snapshots of streaming jobs",
    doc_md=__doc__,
    schedule=read_schedule("STREAMKEEPER_PRUNE_SCHEDULE", "40 4 * * *"),
    catchup=False,
    max_active_runs=1,
    tags=["streaming", "snapshots"],
    params=prune_form(JOBS),
    default_args={**default_args(), "execution_timeout": LONGEST_PRUNE},
)
def streaming_prune() -> None:
    plan = PlanPruneOperator(task_id="plan")
    prune = PruneOperator(task_id="prune")
    chain(plan, prune)


streaming_prune()
