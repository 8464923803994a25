"""Tests the single tasks of a deploy on an operation of the installed job: what they wait for and what they skip."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.journal_records import (
    Assessed,
    InstancePlanned,
    OperationStarted,
    Record,
    Role,
    ShadowAppointed,
    StepDone,
)
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.run_names import operation_id
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.orchestration.asking import ask, asked
from tests.orchestration.installed import install
from tests.orchestration.running import Instance, context_of, task_fails

pytestmark = pytest.mark.airflow
OPERATION = operation_id("a_dag", "manual__1")
CARRIED: dict[str, Any] = {"job": JOB, "operation": OPERATION}


class Task(Instance):
    """A task instance of a run whose earlier tasks pushed nothing."""

    def xcom_pull(self, **_: Any) -> None:
        """Return nothing."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    return install(tmp_path, monkeypatch)


def context() -> Any:
    return context_of(Task())


def record(job: Registered, name: str, *records: Record) -> None:
    for each in records:
        job.installation.journal(name, "test").append(lambda _, each=each: each)


def rebuild(job: Registered, name: str, operation: str, *, began: bool) -> None:
    """Record an operation that was assessed to rebuild, and optionally the start of its dual run."""
    instance = f"{operation}-candidate"
    record(
        job,
        name,
        OperationStarted(operation=operation, request=DeployRequest(job=name, catch_up_s=60), steps=()),
        StepDone(operation=operation, step="bundle", result={"release": "r0001"}),
        StepDone(operation=operation, step="standby"),
        InstancePlanned(operation=operation, instance=instance, release="r0001", role=Role.CANDIDATE),
        Assessed(
            operation=operation,
            verdict=Verdict.SWITCH,
            reverse=Verdict.SWITCH,
            sentence="",
            report="",
            transitions={QUERY: QueryTransition(way=Transition.REBUILD, before="v0001", version="v0002")},
        ),
        StepDone(operation=operation, step="assess"),
    )
    if began:
        record(job, name, ShadowAppointed(operation=operation, instance=instance))


@pytest.mark.parametrize("step", [Step.SHADOW, Step.COMPARE, Step.RESTORE])
def test_a_step_that_the_verdict_does_not_ask_for_is_skipped(job: Registered, step: Step) -> None:
    """A step that the verdict does not require is shown as skipped in the Airflow run."""
    from airflow.sdk.exceptions import AirflowSkipException

    from streamkeeper.orchestration.deploy_tasks import StepOperator

    ask(job, OPERATION)
    with pytest.raises(AirflowSkipException, match=f"does not need {step.label}"):
        StepOperator(task_id="a_step", step=step, **CARRIED).work(context())


def test_a_failed_run_with_an_open_operation_updates_the_asset_with_open() -> None:
    """When the operation has no outcome, the failure announcement updates the asset with the outcome ``open`` without
    reading the store.
    """
    from streamkeeper.orchestration.deploy_tasks import OPERATIONS, AnnounceFailureOperator

    asked = {**context(), "outlet_events": {OPERATIONS: SimpleNamespace(extra={})}}
    AnnounceFailureOperator(task_id="announce_failure", finish="finish", **CARRIED).work(asked)
    told = asked["outlet_events"][OPERATIONS].extra
    assert (told["job"], told["operation"], told["outcome"]) == (JOB, OPERATION, "open")


def test_the_rest_task_finishes_when_only_an_approval_is_outstanding(job: Registered) -> None:
    """The rest task finishes as soon as only a person's approval is outstanding, and leaves the approval to the next
    task.
    """
    from streamkeeper.orchestration.approvals import RestOperator

    ask(job, OPERATION)
    assert RestOperator(task_id="rest", **CARRIED).work(context()) == "a person must approve"
    assert "approve" not in asked(job, OPERATION).done


def test_a_recorded_approval_is_not_requested_a_second_time(job: Registered) -> None:
    """An approval task whose operation is already approved returns the recorded answer instead of requesting it a
    second time.
    """
    from streamkeeper.operations.deploys.approval import answer_approval
    from streamkeeper.orchestration.approvals import ApproveOperator

    ask(job, OPERATION)
    answer_approval(job.installation, JOB, OPERATION, approved=True, by="cli:eve", reason="looked at it")
    assert ApproveOperator(task_id="approve", step=Step.APPROVE, **CARRIED).work(context())["chosen_options"] == [
        "Approve"
    ]


def test_the_shadow_step_defers_during_the_dual_run_of_a_different_job(job: Registered) -> None:
    """While a different job is in a dual run, the shadow step defers with a message that names it, and carries the time
    waited so far through each deferral.
    """
    from airflow.sdk.exceptions import TaskDeferred

    from streamkeeper.orchestration.dual_run_tasks import ShadowOperator

    rebuild(job, "other", "op-other", began=True)
    rebuild(job, JOB, OPERATION, began=False)
    task = ShadowOperator(task_id="shadow", step=Step.SHADOW, **CARRIED)
    with pytest.raises(TaskDeferred) as deferred:
        task.work(context())
    kwargs = deferred.value.kwargs or {}
    assert "job other is in a dual run (operation op-other)" in kwargs["told"]
    with pytest.raises(TaskDeferred) as again:
        task.look_again(context(), {"waited_s": 20.0}, **kwargs)
    assert (again.value.kwargs or {})["waited_s"] == 20.0
    assert not asked(job, OPERATION).abort


def test_an_event_of_a_different_trigger_only_causes_a_new_check(job: Registered) -> None:
    """An event that belongs to a different trigger, which Airflow on SQLite can deliver because it reuses trigger ids,
    only makes the task check again.
    """
    from airflow.sdk.exceptions import TaskDeferred

    from streamkeeper.orchestration.dual_run_tasks import ShadowOperator

    rebuild(job, "other", "op-other", began=True)
    rebuild(job, JOB, OPERATION, began=False)
    task = ShadowOperator(task_id="shadow", step=Step.SHADOW, **CARRIED)
    with pytest.raises(TaskDeferred) as deferred:
        task.look_again(context(), {"chosen_options": ["Approve"]}, on="another job's dual run", waited_s=7.0)
    assert "told" in (deferred.value.kwargs or {})


def test_a_wait_for_a_different_dual_run_is_aborted_after_its_time_limit(job: Registered) -> None:
    """Waiting for a different job's dual run is aborted after the time allowed for catching up, and the operation's
    sentence names that job.
    """
    from streamkeeper.operations.deploys.dual_runs import TURN
    from streamkeeper.orchestration.dual_run_tasks import ShadowOperator

    rebuild(job, "other", "op-other", began=True)
    rebuild(job, JOB, OPERATION, began=False)
    task = ShadowOperator(task_id="shadow", step=Step.SHADOW, **CARRIED)
    with task_fails("aborted: job other is in a dual run"):
        task.look_again(context(), {"waited_s": 20.0}, on=TURN, waited_s=50.0)


@pytest.mark.parametrize(("waited_s", "asleep_s"), [(0.0, 3.0), (12.0, 12.0), (500.0, 30.0), (598.0, 2.2)])
def test_the_catch_up_check_runs_soon_and_then_less_often(waited_s: float, asleep_s: float) -> None:
    """The catch-up check runs soon at first and then less often, at most every 30 s, and never later than just past the
    deadline.
    """
    from streamkeeper.operations.deploys.deploy import Progress, ProgressKind
    from streamkeeper.orchestration.dual_run_tasks import CatchUpOperator

    task = CatchUpOperator(task_id="catch_up", step=Step.CATCH_UP, **CARRIED)
    progress = Progress(
        kind=ProgressKind.WAITING, step=Step.CATCH_UP, sentence="", on="it", waited_s=waited_s, deadline_s=600.0
    )
    assert task.asleep_s(progress) == pytest.approx(asleep_s)


def test_the_fall_back_is_skipped_while_the_current_release_is_unaffected(job: Registered) -> None:
    """The fall-back task is skipped while the operation has not affected the current release."""
    from airflow.sdk.exceptions import AirflowSkipException

    from streamkeeper.orchestration.deploy_tasks import FallBackOperator

    ask(job, OPERATION)
    with pytest.raises(AirflowSkipException, match="has not affected the current release"):
        FallBackOperator(task_id="fall_back", **CARRIED).work(context())
