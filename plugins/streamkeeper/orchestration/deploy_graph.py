"""The task graphs of a deploy, a rollback and a recovery, for any DAG.

The tasks of a graph belong to the task group or DAG in which they are created. No task refers to another by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import Asset, TaskGroup, TriggerRule, chain, task_group

from streamkeeper.model.records.step import Step
from streamkeeper.orchestration.approvals import AnswerOperator, ApproveOperator, RestOperator, answer_form
from streamkeeper.orchestration.deploy_tasks import (
    SHORT_WAIT_S,
    AnnounceFailureOperator,
    AssessOperator,
    BundleOperator,
    ChooseOperator,
    FallBackOperator,
    FinishOperator,
    HandoverOperator,
    RollBackOperator,
    StepOperator,
)
from streamkeeper.orchestration.dual_run_tasks import CatchUpOperator, CompareOperator, ShadowOperator
from streamkeeper.orchestration.recoveries import (
    AcceptOperator,
    DecideOperator,
    DiagnoseOperator,
    RecoveredOperator,
    RecoverOperator,
)
from streamkeeper.orchestration.retrying import default_args
from streamkeeper.orchestration.task_arguments import DeployArguments, RollbackArguments
from streamkeeper.orchestration.tasks import OpeningTask

GO_ON = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
"""The trigger rule of a task that follows several branches, of which those that were not taken are skipped."""


def deploy_streaming_job(
    job: str,
    *,
    reason: str,
    group_id: str = "",
    outlets: Iterable[Asset] = (),
    **request: Unpack[DeployArguments],
) -> TaskGroup:
    """Create a task group in a user's DAG that deploys a job. The group fails if the deploy fails.

    ``job``: the job's name; ``reason``: recorded in its journal.
    ``group_id``: the group's id, by default ``deploy_<job>``.
    ``outlets``: assets that a successful deploy updates; every deploy updates ``streamkeeper://operations``.
    ``request``: the other fields of the form *Deploy a streaming job*, with the form's defaults.

    ``job``, ``reason`` and the values of ``request`` may be templates. All of them except ``job`` may also be XComArgs.
    Raises InvalidInput for an unknown field.
    """
    asked = {"job": job, "reason": reason, **request}
    with TaskGroup(group_id=group_id or f"deploy_{job}", default_args=default_args()) as group:
        deploy_graph(asked, outlets=outlets)
    return group


def roll_back_streaming_job(
    job: str, *, reason: str, group_id: str = "", **request: Unpack[RollbackArguments]
) -> TaskGroup:
    """Create a task group in a user's DAG that rolls a job back to ``release``, by default the previous release.

    The arguments are those of ``deploy_streaming_job``, with the form *Roll back a streaming job*. The group's default
    id is ``roll_back_<job>``.
    """
    asked = {"job": job, "reason": reason, **request}
    with TaskGroup(group_id=group_id or f"roll_back_{job}", default_args=default_args()) as group:
        rollback_graph(asked)
    return group


def deploy_graph(request: Mapping[str, Any] | None = None, *, outlets: Iterable[Asset] = ()) -> None:
    """Create the tasks of a deploy.

    The tasks are bundle, standby, assess, takeover and end. Backup and dual run come before takeover if the verdict
    needs them.
    """
    bundle = BundleOperator(task_id="bundle", request=request)
    finish = FinishOperator(task_id="finish", trigger_rule=TriggerRule.ALL_DONE, outlets=outlets, **bundle.carried_on)
    _from_release_on(bundle, finish)


def rollback_graph(request: Mapping[str, Any] | None = None) -> None:
    """Create the tasks of a rollback: those of a deploy without the dual run and the approval."""
    bundle = RollBackOperator(task_id="bundle", request=request)
    carried_on = bundle.carried_on
    finish = FinishOperator(task_id="finish", trigger_rule=TriggerRule.ALL_DONE, **carried_on)
    taken_over = takeover(carried_on)
    choose = ChooseOperator(task_id="choose", branches={}, go_on=taken_over.group_id, end=finish.task_id, **carried_on)
    chain(bundle, *_assessed(carried_on), choose, taken_over, _fall_back(carried_on), finish)
    choose >> finish
    _end(finish, carried_on)


def recovery_graph() -> None:
    """Create the tasks of a recovery: diagnose, ask a person about loss or duplication, then the tasks of a deploy."""
    looked = DiagnoseOperator(task_id="diagnose")
    accepted = AcceptOperator(task_id="accept", diagnosed=looked.task_id, params=answer_form())
    bundle = RecoverOperator(task_id="bundle", diagnosed=looked.task_id, trigger_rule=GO_ON)
    finish = RecoveredOperator(
        task_id="finish", diagnosed=looked.task_id, trigger_rule=TriggerRule.ALL_DONE, **bundle.carried_on
    )
    decide = DecideOperator(
        task_id="decide",
        diagnosed=looked.task_id,
        ask=accepted.task_id,
        go_on=bundle.task_id,
        end=finish.task_id,
    )
    chain(looked, decide, accepted, bundle)
    decide >> [bundle, finish]
    _from_release_on(bundle, finish)


def _from_release_on(opened: OpeningTask, finish: FinishOperator) -> None:
    carried_on = opened.carried_on
    kept, rebuilt, taken_over = backup(carried_on), dual_run(carried_on), takeover(carried_on)
    to_dual_run = {Step.SHADOW: rebuilt.group_id}
    choose = ChooseOperator(
        task_id="choose",
        branches={Step.KEEP_STATE: kept.group_id, **to_dual_run},
        go_on=taken_over.group_id,
        end=finish.task_id,
        **carried_on,
    )
    choose_again = ChooseOperator(
        task_id="choose_again",
        branches=to_dual_run,
        go_on=taken_over.group_id,
        end=finish.task_id,
        trigger_rule=GO_ON,
        **carried_on,
    )
    chain(opened, *_assessed(carried_on), choose, kept, choose_again, rebuilt, taken_over)
    chain(taken_over, _fall_back(carried_on), finish)
    choose >> [choose_again, rebuilt, taken_over, finish]
    choose_again >> [taken_over, finish]
    _end(finish, carried_on)


def _assessed(carried_on: Mapping[str, Any]) -> tuple[StepOperator, AssessOperator]:
    standby = StepOperator(task_id="standby", step=Step.STANDBY, patience_s=SHORT_WAIT_S, **carried_on)
    return standby, AssessOperator(task_id="assess", **carried_on)


@task_group
def backup(carried_on: Mapping[str, Any]) -> None:
    """Create the tasks for an opaque change: back up the state, end the standby driver, ask for approval, and check
    that the evidence still matches the approved evidence.
    """
    keep_state = StepOperator(task_id="keep_state", step=Step.KEEP_STATE, **carried_on)
    rest = RestOperator(task_id="rest", **carried_on)
    approve = ApproveOperator(task_id="approve", step=Step.APPROVE, params=answer_form(), **carried_on)
    answer = AnswerOperator(task_id="answer", step=Step.APPROVE, **carried_on)
    ready = StepOperator(task_id="ready", step=Step.READY, **carried_on)
    chain(keep_state, rest, approve, answer, ready)


@task_group
def dual_run(carried_on: Mapping[str, Any]) -> None:
    """Create the tasks of a rebuild: the candidate reads all input again, hidden from readers, and both outputs are
    compared.

    A person is asked if the outputs differ or could not be compared, or if the effect of changed code is unproven.
    """
    shadow = ShadowOperator(task_id="shadow", step=Step.SHADOW, trigger_rule=GO_ON, **carried_on)
    catch_up = CatchUpOperator(task_id="catch_up", step=Step.CATCH_UP, **carried_on)
    compare = CompareOperator(task_id="compare", step=Step.COMPARE, patience_s=SHORT_WAIT_S, **carried_on)
    review = ApproveOperator(task_id="review", step=Step.REVIEW, params=answer_form(), **carried_on)
    answer = AnswerOperator(task_id="answer", step=Step.REVIEW, **carried_on)
    chain(shadow, catch_up, compare, review, answer)


@task_group
def takeover(carried_on: Mapping[str, Any]) -> None:
    """Create the tasks that drain the current driver, start the candidate, wait for its probation, and promote it."""
    handover = HandoverOperator(task_id="handover", trigger_rule=GO_ON, **carried_on)
    first_commit = StepOperator(task_id="first_commit", step=Step.FIRST_COMMIT, patience_s=SHORT_WAIT_S, **carried_on)
    snapshot = StepOperator(task_id="snapshot", step=Step.SNAPSHOT, **carried_on)
    probation = StepOperator(task_id="probation", step=Step.PROBATION, patience_s=SHORT_WAIT_S, **carried_on)
    promote = StepOperator(task_id="promote", step=Step.PROMOTE, **carried_on)
    chain(handover, first_commit, snapshot, probation, promote)


def _fall_back(carried_on: Mapping[str, Any]) -> FallBackOperator:
    """Create the task that rolls back automatically after a failed takeover."""
    return FallBackOperator(task_id="fall_back", trigger_rule=TriggerRule.ONE_FAILED, **carried_on)


def _end(finish: FinishOperator, carried_on: Mapping[str, Any]) -> None:
    """Create the task that announces a failed ``finish``, and an empty last task that has the state of ``finish``.

    Without the empty task, a failed deploy's run would count as a success, because the announcement succeeds.
    """
    announced = AnnounceFailureOperator(
        task_id="announce_failure", finish=finish.task_id, trigger_rule=TriggerRule.ONE_FAILED, **carried_on
    )
    done = EmptyOperator(task_id="done", trigger_rule=GO_ON)
    chain(finish, announced, done)
    finish >> done
