"""Stop a streaming job.

The stop is recorded first. Then the driver finishes the open batch and stops; after the deadline it is killed. Its
termination is proven. Afterwards, only a person can start the job: by *Start a streaming job*, a deploy or a rollback.
Its checkpoints are unchanged, and a start resumes from them.

While an operation of the job is open, the stop is refused, and the refusal names the operation. If the job is already
stopped, the task is skipped. A task that failed or was killed continues when it is cleared. The task's log contains the
last lines of the driver's log.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import dag

from streamkeeper.orchestration.desired import LONGEST_STOP, StopOperator
from streamkeeper.orchestration.form import stop_form
from streamkeeper.orchestration.retrying import default_args

JOBS = Path(os.environ.get("STREAMKEEPER_JOBS", "jobs"))


@dag(
    dag_display_name="Stop a streaming job",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["streaming", "lifecycle"],
    params=stop_form(JOBS),
    default_args={**default_args(), "execution_timeout": LONGEST_STOP},
)
def streaming_stop() -> None:
    StopOperator(task_id="stop")


streaming_stop()
