"""The parts that the graphs of a deploy and of a rollback are made of; a DAG file says how they follow each other."""

from __future__ import annotations

from typing import Any

from airflow.sdk import TriggerRule, chain, task_group

from streamkeeper.lifecycle.steps import Step
from streamkeeper.orchestration.approvals import AnswerOperator, ApproveOperator, RestOperator, answer_form
from streamkeeper.orchestration.dual_runs import CatchUpOperator, CompareOperator, ShadowOperator
from streamkeeper.orchestration.operators import (
    SECONDS_S,
    FallBackOperator,
    FinishOperator,
    HandoverOperator,
    StepOperator,
)
from streamkeeper.orchestration.retrying import RETRIES, RETRY_DELAY, retry_policy

GO_ON = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
"""Of a task that more than one way leads to: those that were not taken are skipped."""


def default_args() -> dict[str, Any]:
    """Of every task of an operation's DAG."""
    return {
        "owner": "streamkeeper",
        "retries": RETRIES,
        "retry_delay": RETRY_DELAY,
        "retry_policy": retry_policy(),
    }


@task_group
def backup() -> None:
    """An opaque change: the state is kept, the standby rests, a person approves, nothing has drifted since."""
    keep_state = StepOperator(task_id="keep_state", step=Step.BACKUP)
    rest = RestOperator(task_id="rest")
    approve = ApproveOperator(task_id="approve", step=Step.APPROVE, params=answer_form())
    answer = AnswerOperator(task_id="answer", step=Step.APPROVE)
    ready = StepOperator(task_id="ready", step=Step.READY, deadline_param="standby_s")
    chain(keep_state, rest, approve, answer, ready)


@task_group
def dual_run() -> None:
    """A rebuild: the candidate reads everything again, unseen, until it holds what the serving one does.

    A person is asked when the outputs differ, could not be compared, or come from code that nothing proves.
    """
    shadow = ShadowOperator(task_id="shadow", step=Step.SHADOW, deadline_param="standby_s", trigger_rule=GO_ON)
    catch_up = CatchUpOperator(task_id="catch_up", step=Step.CATCH_UP, deadline_param="catch_up_s")
    compare = CompareOperator(task_id="compare", step=Step.COMPARE, patience_s=SECONDS_S)
    review = ApproveOperator(task_id="review", step=Step.REVIEW, params=answer_form())
    answer = AnswerOperator(task_id="answer", step=Step.REVIEW)
    chain(shadow, catch_up, compare, review, answer)


@task_group
def takeover() -> None:
    """What serves is drained and proven dead; the candidate goes, holds for a while, and is promoted."""
    handover = HandoverOperator(task_id="handover", trigger_rule=GO_ON)
    first_commit = StepOperator(
        task_id="first_commit", step=Step.FIRST_COMMIT, deadline_param="first_commit_s", patience_s=SECONDS_S
    )
    snapshot = StepOperator(task_id="snapshot", step=Step.BOUNDARY)
    probation = StepOperator(
        task_id="probation", step=Step.PROBATION, deadline_param="probation_s", patience_s=SECONDS_S
    )
    promote = StepOperator(task_id="promote", step=Step.STABLE)
    chain(handover, first_commit, snapshot, probation, promote)


def ending() -> tuple[FallBackOperator, FinishOperator]:
    """The way out of a takeover that failed, and the task that gives the run the operation's outcome."""
    finish = FinishOperator(task_id="finish", step=Step.FALL_BACK, trigger_rule=TriggerRule.ALL_DONE)
    return way_out(), finish


def way_out() -> FallBackOperator:
    """What follows a takeover that failed."""
    return FallBackOperator(task_id="fall_back", step=Step.FALL_BACK, trigger_rule=TriggerRule.ONE_FAILED)
