"""Deploy a release of a streaming job.

**bundle** the code, start the candidate as a **standby**, **assess** it against what serves, and **choose**. A RESUME
goes on: **handover** (drain the serving driver, prove it dead, go), **first_commit**, **snapshot** of
the batch at which it changed hands, **promote**. When the new release
does not commit in time, **fall_back** lets the old one go again from the last commit. Any other verdict ends the deploy
and leaves the serving release as it is. **finish** gives the run the operation's outcome.

A task that failed or was killed continues when it is cleared: all that is done stands in the job's journal.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import TriggerRule, chain, dag, task_group

from streamkeeper.lifecycle.steps import Step
from streamkeeper.orchestration.form import deploy_form
from streamkeeper.orchestration.operators import (
    AssessOperator,
    BundleOperator,
    ChooseOperator,
    FallBackOperator,
    FinishOperator,
    HandoverOperator,
    StepOperator,
)
from streamkeeper.orchestration.retrying import RETRIES, RETRY_DELAY, retry_policy

JOBS = Path(os.environ.get("STREAMKEEPER_JOBS", "jobs"))


@dag(
    dag_display_name="Deploy a streaming job",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["streaming", "lifecycle"],
    params=deploy_form(JOBS),
    default_args={
        "owner": "streamkeeper",
        "retries": RETRIES,
        "retry_delay": RETRY_DELAY,
        "retry_policy": retry_policy(),
    },
)
def streaming_deploy() -> None:
    bundle = BundleOperator(task_id="bundle")
    standby = StepOperator(task_id="standby", step=Step.STANDBY, deadline_param="standby_s")
    assess = AssessOperator(task_id="assess", step=Step.ASSESS)
    choose = ChooseOperator(task_id="choose", go_on="resume", end="finish")

    @task_group
    def resume() -> None:
        handover = HandoverOperator(task_id="handover")
        first_commit = StepOperator(task_id="first_commit", step=Step.FIRST_COMMIT, deadline_param="first_commit_s")
        snapshot = StepOperator(task_id="snapshot", step=Step.BOUNDARY)
        promote = StepOperator(task_id="promote", step=Step.STABLE)
        chain(handover, first_commit, snapshot, promote)

    resumed = resume()
    fall_back = FallBackOperator(task_id="fall_back", step=Step.FALL_BACK, trigger_rule=TriggerRule.ONE_FAILED)
    finish = FinishOperator(task_id="finish", step=Step.FALL_BACK, trigger_rule=TriggerRule.ALL_DONE)

    chain(bundle, standby, assess, choose, resumed, fall_back, finish)
    choose >> finish


streaming_deploy()
