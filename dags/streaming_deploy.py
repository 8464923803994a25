"""Deploy a release of a streaming job.

**bundle** the code, start the candidate as a **standby**, **assess** it against what serves, and **choose** the way
that the verdict asks for.

- **backup**, for an opaque change (BACKUP): **keep_state** in a snapshot; the standby may **rest** while a person
  is asked to **approve**; the **answer** is recorded; **ready** starts it again and sees that nothing has drifted.
- **dual_run**, for a rebuild (SWITCH): the candidate reads the sources again as a **shadow**, has to **catch_up**, and
  **compare** holds both outputs against each other. One job at a time.
- **takeover**, always: **handover** (drain what serves, prove it dead, go), **first_commit**, **snapshot** of the batch
  at which it changed hands, **probation**, **promote**.

When the new release does not hold, **fall_back** lets the old one serve again, by the way back that was assessed. A
verdict without a way, a declined approval or an aborted dual run ends the deploy and leaves what serves as it is.
**finish** gives the run the operation's outcome; of one that failed **announce_failure** updates the asset
`streamkeeper://operations`.

A task that failed or was killed continues when it is cleared: all that is done stands in the job's journal.
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
