"""Diagnose a streaming job and repair it.

**diagnose** examines driver, machine, checkpoints, sources, outputs, snapshots and journal. It names one cause with its
evidence. For each action it lists, per output, the data that the action would reread, rewrite or lose. Its report is
the run's report. It changes nothing. With the action *diagnose*, or in a **dry run**, the run stops there.

An action that loses or duplicates data waits in **accept** until a person accepts it. The person's name is recorded. If
no answer arrives in time, the action counts as declined.

**bundle** opens the operation, which from here on is a deploy of the current release with the announced transitions:
**standby**, **assess**, the **dual run** of a rebuild, the **takeover** with its probation, and **fall_back** if some
driver can still run. **finish** gives the run the operation's outcome. If the operation failed, **announce_failure**
updates the asset `streamkeeper://operations`.

The actions:

- *restart* runs the current release in its checkpoint versions.
- *restore* restores each damaged query from its newest drilled snapshot, as its next checkpoint version.
- *replan* makes a new plan for an open batch whose plan is unreadable.
- *rebuild* lets each damaged query reread its sources into a shadow.

A task that failed or was killed continues when it is cleared: the job's journal records every completed step.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import dag

from streamkeeper.orchestration.deploy_graph import recovery_graph
from streamkeeper.orchestration.form import recover_form
from streamkeeper.orchestration.retrying import default_args

JOBS = Path(os.environ.get("STREAMKEEPER_JOBS", "jobs"))


@dag(
    dag_display_name="Recover a streaming job",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["streaming", "recovery"],
    params=recover_form(JOBS),
    default_args=default_args(),
)
def streaming_recover() -> None:
    recovery_graph()


streaming_recover()
