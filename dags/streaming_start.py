"""Start a streaming job again.

The last current release resumes from its checkpoints. Use this for a job that was stopped, whose driver has terminated
or was lost with its machine, or that has read all its input (`availableNow`). A start is a deploy of that same release,
with all proofs of a deploy: the checkpoint contains everything that is recorded about it, no other driver is alive, and
the new driver is the only one that may write. No query starts from the beginning, and no change is applied.

While an operation of the job is open, the start is refused, and the refusal names the operation. If the job is already
running, the task is skipped. A task that failed or was killed continues when it is cleared. The task's log contains the
last lines of the driver's log.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import dag

from streamkeeper.orchestration.desired import StartOperator
from streamkeeper.orchestration.form import start_form
from streamkeeper.orchestration.retrying import default_args

JOBS = Path(os.environ.get("STREAMKEEPER_JOBS", "jobs"))


@dag(
    dag_display_name="Start a streaming job",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["streaming", "lifecycle"],
    params=start_form(JOBS),
    default_args=default_args(),
)
def streaming_start() -> None:
    StartOperator(task_id="start")


streaming_start()
