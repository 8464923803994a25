"""State that a streaming job's driver has terminated, although nothing can prove it any more.

Only for a driver whose machine is gone for good: the node is switched off or scrapped, and you know it. **state**
records your word, your name and the reason, under the conditions of `streamkeeper state-dead`: a driver that runs, or
whose end can be proven, is refused, and so is a person who may not answer what operations ask. Without *It does not
run any more* nothing is recorded, and the run fails with what the statement would risk.

**copy** then takes a snapshot of every checkpoint that this driver may still write. Nothing continues in those
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
