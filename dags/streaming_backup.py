"""Back up streaming jobs: a snapshot of every query's checkpoint, every hour.

**find** lists the deployed queries. **backup** takes a snapshot of each query in a task of its own; it is skipped if no
batch was committed since the last snapshot, and a failure does not stop the other backups. **objective** then fails the
run if a backup failed, or if the newest snapshot of a query lacks a batch that was committed longer ago than
`STREAMKEEPER_BACKUP_OBJECTIVE_S`. It prints a line for each such query.

Above 500 queries, or Airflow's `core.max_map_length`, a task backs up several queries, one after the other.

`STREAMKEEPER_BACKUP_SCHEDULE` sets another schedule (cron, or `never`). No driver waits for a backup.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import TriggerRule, chain, dag

from streamkeeper.orchestration.backups import LONGEST_BACKUP, BackupOperator, ObjectiveOperator
from streamkeeper.orchestration.query_tasks import SERIES_SHOWN, FindOperator
from streamkeeper.orchestration.retrying import default_args
from streamkeeper.orchestration.schedules import read_schedule
from streamkeeper.orchestration.snapshot_forms import backup_form

JOBS = Path(os.environ.get("STREAMKEEPER_JOBS", "jobs"))


@dag(
    dag_display_name="Back up streaming jobs",
    doc_md=__doc__,
    schedule=read_schedule("STREAMKEEPER_BACKUP_SCHEDULE", "@hourly"),
    catchup=False,
    max_active_runs=1,
    tags=["streaming", "snapshots"],
    params=backup_form(JOBS),
    default_args={**default_args(), "execution_timeout": LONGEST_BACKUP},
)
def streaming_backup() -> None:
    find = FindOperator(task_id="find")
    backup = BackupOperator.partial(task_id="backup", map_index_template=SERIES_SHOWN).expand(series=find.output)
    objective = ObjectiveOperator(task_id="objective", trigger_rule=TriggerRule.ALL_DONE)
    chain(find, backup, objective)


streaming_backup()
