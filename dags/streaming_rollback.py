"""Go back to an older release of a streaming job.

**bundle** finds the release: the one that is named, or the one that served before. It is started as a **standby**, with
its own code, and **assess** says which way back each query has, before anything is touched: forward from the last
commit, or back to its own checkpoint, or to the snapshot of its last batch; and for the latter two what would be read
and written again, and whether the output takes that. A **dry run** stops there.

**choose** goes on to the **takeover**: **handover** (drain what serves, prove it dead, restore if need be, go),
**first_commit**, **snapshot** of the batch at which it changed hands, **probation**, **promote**. When the older
release does not hold, **fall_back** lets the newer one serve again. **finish** gives the run the operation's outcome;
of one that failed **announce_failure** updates the asset `streamkeeper://operations`.

A task that failed or was killed continues when it is cleared: all that is done stands in the job's journal.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import dag

from streamkeeper.orchestration.deploy_graph import rollback_graph
from streamkeeper.orchestration.form import rollback_form
from streamkeeper.orchestration.retrying import default_args

JOBS = Path(os.environ.get("STREAMKEEPER_JOBS", "jobs"))


@dag(
    dag_display_name="Roll back a streaming job",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["streaming", "lifecycle"],
    params=rollback_form(JOBS),
    default_args=default_args(),
)
def streaming_rollback() -> None:
    rollback_graph()


streaming_rollback()
