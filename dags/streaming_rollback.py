"""Roll a streaming job back to an older release.

**bundle** finds the release: the named one, or the previous one. It starts as a **standby** with its own code.
**assess** reports the rollback path of each query before anything is changed: forward from the last commit, back to its
own checkpoint, or back to the snapshot of its last batch. For the latter two it reports the data that would be reread
and rewritten, and whether the output accepts that. A **dry run** stops there.

**choose** continues with the **takeover**: **handover** (drain the current driver, prove its termination, restore if
needed, let the standby start), **first_commit**, **snapshot** of the batch at the handover, **probation**, **promote**.
If the older release fails, **fall_back** restarts the newer one. **finish** gives the run the operation's outcome. If
the operation failed, **announce_failure** updates the asset `streamkeeper://operations`.

A task that failed or was killed continues when it is cleared: the job's journal records every completed step.
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
