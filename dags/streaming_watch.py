"""Watch streaming jobs every minute: detect problems, name their cause, take safe actions, notify people.

**watch** observes every job (with one read of the machine's processes for all of them), applies the health rules, and
maintains the incidents: each is raised once, repeated every half hour while it lasts, and cleared. It restarts a job
that should run and provably has no driver, continues an operation whose carrier (the process or DAG run that executes
it) has provably terminated, and takes a late backup. Each action is part of its incident. Notices are sent to the
notifiers of `STREAMKEEPER_NOTIFIERS`. Every run writes the fleet index, which `streamkeeper jobs` reads, and updates
the asset `streamkeeper://health`.

`STREAMKEEPER_WATCH_SCHEDULE` sets another schedule (cron, or `never`). With `STREAMKEEPER_WATCH_ACTS=no` this watch
only observes and notifies, and another watch (`streamkeeper watch`) acts. Each rule's meaning and remedy:
docs/operations/runbook.md.
"""

from __future__ import annotations

from airflow.sdk import dag

from streamkeeper.orchestration.retrying import default_args
from streamkeeper.orchestration.schedules import read_schedule
from streamkeeper.orchestration.watch_task import LONGEST_PASS, WatchOperator, watch_form


@dag(
    dag_display_name="Watch streaming jobs",
    doc_md=__doc__,
    schedule=read_schedule("STREAMKEEPER_WATCH_SCHEDULE", "* * * * *"),
    catchup=False,
    max_active_runs=1,
    tags=["streaming", "health"],
    params=watch_form(),
    default_args={**default_args(), "execution_timeout": LONGEST_PASS},
)
def streaming_watch() -> None:
    WatchOperator(task_id="watch")


streaming_watch()
