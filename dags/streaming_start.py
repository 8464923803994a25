"""Start a streaming job again.

The release that served last serves again, from where its checkpoints stand: a job that was stopped, one whose driver
has ended or was lost with its machine, or one that read all there was (`availableNow`). It is a deploy of that very
release, with everything that a deploy proves: what a checkpoint must hold, that no other driver lives, one owner, one
fence. Nothing begins anew, and nothing new is tried.

While an operation of the job is open the start is refused and names it. A job that serves already: the task is skipped.
A task that failed or was killed continues when it is cleared. The last lines of the driver's log are in the task's log.
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
