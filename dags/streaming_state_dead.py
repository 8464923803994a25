"""State that a streaming job's driver has terminated, although this can no longer be proven.

Use it only for a driver whose machine is permanently lost, when you are certain that the node is switched off or
scrapped. **state** records your statement, your name and the reason, under the conditions of `streamkeeper state-dead`:
it is refused for a driver that runs, for one whose termination can be proven, and for a person who may not answer the
operations' questions. Without *The driver has terminated* nothing is recorded, and the run fails with the risks of the
statement.

**copy** then takes a snapshot of every checkpoint that this driver may still write. No driver continues in those
directories. *Recover a streaming job* with the action *restore* continues in the copy.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import chain, dag

from streamkeeper.orchestration.form import state_dead_form
from streamkeeper.orchestration.retrying import default_args
from streamkeeper.orchestration.statements import LONGEST_COPY, CopyForkOperator, StateDeadOperator

JOBS = Path(os.environ.get("STREAMKEEPER_JOBS", "jobs"))


@dag(
    dag_display_name="State that a driver has terminated",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["streaming", "recovery"],
    params=state_dead_form(JOBS),
    default_args={**default_args(), "execution_timeout": LONGEST_COPY},
)
def streaming_state_dead() -> None:
    chain(StateDeadOperator(task_id="state"), CopyForkOperator(task_id="copy"))


streaming_state_dead()
