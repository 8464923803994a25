"""Find out what is wrong with a streaming job, and put it right.

**diagnose** looks at driver, machine, checkpoints, sources, outputs, snapshots and journal, names one cause with its
evidence, and says of each action what it reads again, writes again or loses, per output; its report is the run's. It
changes nothing, and with the action *diagnose*, or in a **dry run**, the run ends there.

An action that loses or doubles anything waits in **accept** for a person, whose name is in the record; nobody answering
is a no. **bundle** opens the operation: from here on it is a deploy of the serving release, with its ways chosen by
what was announced: **standby**, **assess**, the **dual run** of a rebuild, the **takeover** with its probation, and
**fall_back** where something can still serve. **finish** gives the run the operation's outcome; of one that failed
**announce_failure** updates the asset `streamkeeper://operations`.

*restart*: the serving release, in its checkpoint versions. *restore*: each damaged query from its newest drilled
snapshot, as its next checkpoint version. *rebuild*: each damaged query reads its sources again, unseen.

A task that failed or was killed continues when it is cleared: all that is done stands in the job's journal.
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
