"""Watch streaming jobs: see what is wrong, name its cause, do what is safe, tell people; every minute.

**watch** looks at every job (one look at the machine's processes for all of them), asks the rules of health, and keeps
the incidents: raised once, repeated every half hour while they last, cleared. What provably nobody runs and should
serve is started again, an operation that provably nobody carries on is carried on, a late backup is taken; each act is
part of its incident. Notices go to the notifiers that `STREAMKEEPER_NOTIFIERS` names. The fleet index that the pass
leaves is what `streamkeeper jobs` reads; the asset `streamkeeper://health` is updated.

`STREAMKEEPER_WATCH_SCHEDULE` is another schedule (cron, or `never`); with `STREAMKEEPER_WATCH_ACTS=no` this watch looks
and tells only, and another one (`streamkeeper watch`) acts. What each rule means and what to do:
docs/operations/runbook.md.
"""

from __future__ import annotations

from airflow.sdk import dag

from streamkeeper.orchestration.retrying import default_args
from streamkeeper.orchestration.schedules import read_schedule
from streamkeeper.orchestration.watching import LONGEST_PASS, WatchOperator, watch_form


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
