"""Deploy a release of a streaming job.

**bundle** packs the code. The candidate starts as a **standby**. **assess** compares it with the current release, and
**choose** takes the branch that the verdict requires.

- **backup**, for an opaque change (BACKUP): **keep_state** takes a snapshot; the standby may **rest** while a person is
  asked to **approve**; the **answer** is recorded; **ready** restarts the standby and checks for drift.
- **dual_run**, for a rebuild (SWITCH): the candidate reads the sources from the beginning as a **shadow** and must
  **catch_up**; **compare** compares both outputs. Only one job is in a dual run at a time.
- **takeover**, always: **handover** (drain the current driver, prove its termination, let the standby start),
  **first_commit**, **snapshot** of the batch at the handover, **probation**, **promote**.

If the new release fails, **fall_back** restarts the old one by the assessed rollback path. A verdict without a
transition, a declined approval or an aborted dual run stops the deploy, and the current release keeps running.
**finish** gives the run the operation's outcome. If the operation failed, **announce_failure** updates the asset
`streamkeeper://operations`.

A task that failed or was killed continues when it is cleared: the job's journal records every completed step.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import dag

from streamkeeper.orchestration.deploy_graph import deploy_graph
from streamkeeper.orchestration.form import deploy_form
from streamkeeper.orchestration.retrying import default_args

JOBS = Path(os.environ.get("STREAMKEEPER_JOBS", "jobs"))


@dag(
    dag_display_name="Deploy a streaming job",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["streaming", "lifecycle"],
    params=deploy_form(JOBS),
    default_args=default_args(),
)
def streaming_deploy() -> None:
    deploy_graph()


streaming_deploy()
