"""Find out what is wrong with a streaming job, and put it right.

**diagnose** looks at driver, machine, checkpoints, sources, outputs, snapshots and journal, names one cause with its
evidence, and says of each action what it reads again, writes again or loses, per output; its report is the run's. It
changes nothing, and with the action *diagnose* the run ends there.

An action that loses or doubles anything waits in **accept** for a person, whose name is in the record; nobody answering
is a no. **bundle** opens the operation: from here on it is a deploy of the serving release, with its ways chosen by
what was announced: **standby**, **assess**, the **dual run** of a rebuild, the **takeover** with its probation, and
**fall_back** where something can still serve. **finish** gives the run the operation's outcome.

*restart*: the serving release, in its checkpoint versions. *restore*: each damaged query from its newest drilled
snapshot, as its next checkpoint version. *rebuild*: each damaged query reads its sources again, unseen.

A task that failed or was killed continues when it is cleared: all that is done stands in the job's journal.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import TriggerRule, chain, dag

from streamkeeper.lifecycle.steps import Step
from streamkeeper.orchestration.approvals import answer_form
from streamkeeper.orchestration.deploy_graph import GO_ON, backup, default_args, dual_run, takeover, way_out
from streamkeeper.orchestration.form import recover_form
from streamkeeper.orchestration.operators import AssessOperator, ChooseOperator, StepOperator
from streamkeeper.orchestration.recoveries import (
    AcceptOperator,
    DecideOperator,
    DiagnoseOperator,
    RecoveredOperator,
    RecoverOperator,
)

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
    looked = DiagnoseOperator(task_id="diagnose")
    decide = DecideOperator(task_id="decide", diagnosed="diagnose", ask="accept", go_on="bundle", end="finish")
    accept = AcceptOperator(task_id="accept", diagnosed="diagnose", params=answer_form())
    bundle = RecoverOperator(task_id="bundle", diagnosed="diagnose", trigger_rule=GO_ON)
    standby = StepOperator(task_id="standby", step=Step.STANDBY, deadline_param="standby_s")
    assess = AssessOperator(task_id="assess", step=Step.ASSESS)
    to_dual_run = {Step.SHADOW: "dual_run"}
    choose = ChooseOperator(
        task_id="choose", ways={Step.BACKUP: "backup", **to_dual_run}, go_on="takeover", end="finish"
    )
    kept = backup()
    choose_again = ChooseOperator(
        task_id="choose_again", ways=to_dual_run, go_on="takeover", end="finish", trigger_rule=GO_ON
    )
    rebuilt = dual_run()
    taken_over = takeover()
    fall_back = way_out()
    finish = RecoveredOperator(task_id="finish", diagnosed="diagnose", trigger_rule=TriggerRule.ALL_DONE)

    chain(looked, decide, accept, bundle, standby, assess, choose, kept, choose_again, rebuilt, taken_over)
    chain(taken_over, fall_back, finish)
    decide >> [bundle, finish]
    choose >> [choose_again, rebuilt, taken_over, finish]
    choose_again >> [taken_over, finish]


streaming_recover()
