"""Tests a task that Airflow assigns to a worker on the wrong machine: it returns to the queue unchanged, and fails
after a limited number of attempts.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_records import InstancePlanned, OperationStarted, Role, StepDone
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.run_names import operation_id
from tests.checkpoints.damaging import lose
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.orchestration.installed import add_job_without_commits, install
from tests.orchestration.running import Instance, context_of, task_fails

pytestmark = pytest.mark.airflow
OPERATION = operation_id("a_dag", "manual__1")
AWAY = "far-away"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """A job whose checkpoint was written on a different machine, as seen by a task on one of several workers."""
    job = install(tmp_path, monkeypatch)
    lose(job.directory, "missing")
    job.write_process(AWAY)
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    return job


def backup() -> Any:
    from streamkeeper.orchestration.backups import BackupOperator

    return BackupOperator(task_id="backup", series=f"{JOB}/{QUERY}")


def put_back(act: Any) -> Any:
    """Call the function and return the deferral that it raises."""
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as deferred:
        act()
    return deferred.value


def event_of(deferred: Any) -> dict[str, Any]:
    """Rebuild the trigger from what Airflow stores of it and return the payload of the event that it fires."""

    async def fire() -> Any:
        _, kwargs = deferred.trigger.serialize()
        return [each async for each in type(deferred.trigger)(**{**kwargs, "pause_s": 0.0}).run()]

    (event,) = asyncio.run(fire())
    return dict(event.payload)


def resume(task: Any, deferred: Any, instance: Instance) -> Any:
    """Resume the deferred task on a different worker."""
    return task.resume_execution(
        deferred.method_name, {**(deferred.kwargs or {}), "event": event_of(deferred)}, context_of(instance)
    )


def test_a_task_without_a_right_worker_fails_after_its_chances_with_the_machine(job: Registered) -> None:
    """The task returns to the queue at most ``CHANCES`` times, then fails with the name of the right machine and the
    command to run there, which is also pushed as the run's error.
    """
    from streamkeeper.orchestration.tasks import CHANCES

    instance = Instance()
    deferred = put_back(lambda: backup().execute(context_of(instance)))
    for _ in range(CHANCES - 1):
        assert instance.pushed == {}
        deferred = put_back(lambda last=deferred: resume(backup(), last, instance))
    with task_fails(f"{job.directory} was written on {AWAY}.*run the command on {AWAY}"):
        resume(backup(), deferred, instance)
    assert AWAY in instance.pushed["error"]


def test_a_backup_over_two_machines_completes_each_series_on_its_own_machine(job: Registered) -> None:
    """A backup task for two series on different machines completes each on its own machine and does not repeat the
    series that is already finished.
    """
    from streamkeeper.orchestration.backups import BackupOperator

    near = add_job_without_commits(job.installation, "near")

    def share() -> Any:
        return BackupOperator(task_id="backup", series=f"{JOB}/{QUERY} {near}")

    deferred = put_back(lambda: share().execute(context_of(Instance())))
    assert event_of(deferred) == {"misses": 1, "finished": [near]}
    again = Registered(job.directory.parents[4] / "again")
    again.directory.rename(job.directory)
    (Path(job.installation.settings.checkpoints) / near / "v0001").rmdir()
    assert "contains batch 7" in resume(share(), deferred, Instance())


def test_a_requeued_task_succeeds_on_the_right_machine(job: Registered) -> None:
    """A task that was returned to the queue twice succeeds on the worker that has the checkpoint directory."""
    instance = Instance()
    deferred = put_back(lambda: backup().execute(context_of(instance)))
    deferred = put_back(lambda: resume(backup(), deferred, instance))
    again = Registered(job.directory.parents[4] / "again")
    again.directory.rename(job.directory)
    assert "contains batch 7" in resume(backup(), deferred, instance)


@pytest.mark.parametrize("executor", ["LocalExecutor", "LocalExecutor,mine:path.to.LocalExecutor"])
def test_the_task_fails_at_once_with_a_local_executor(
    job: Registered, monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    """With a local executor, the task fails at once, because no worker on a different machine can run it."""
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    with task_fails(f"was written on {AWAY}"):
        backup().execute(context_of(Instance()))


class Away:
    """Makes the tasks open the test's installation, whose runner reports drivers on a different machine."""

    def __init__(self, job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
        self.job = job
        modules = [import_module(f"streamkeeper.orchestration.{name}") for name in ("tasks", "desired", "recoveries")]
        for module in modules:  # each is imported before one is patched: it would keep the patched function for good
            monkeypatch.setattr(module, "load_installation", lambda: job.installation)
        job.runner.elsewhere = AWAY


def test_a_requeued_wait_keeps_the_time_already_waited(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiting task that moves to a different worker keeps the time that it has already waited, so that its deadline
    does not start anew.
    """
    from streamkeeper.orchestration.deploy_tasks import StepOperator

    Away(job, monkeypatch)
    for record in (
        OperationStarted(operation=OPERATION, request=DeployRequest(job=JOB, standby_s=60), steps=()),
        StepDone(operation=OPERATION, step="bundle", result={"release": "r0001"}),
        InstancePlanned(operation=OPERATION, instance="one", release="r0001", role=Role.CANDIDATE),
    ):
        job.record(record)
    task = StepOperator(task_id="standby", step=Step.STANDBY, job=JOB, operation=OPERATION)
    woken = {"on": "one: standby", "waited_s": 40.0, "told": "", "event": {"waited_s": 5.0}}
    deferred = put_back(lambda: task.resume_execution("look_again", woken, context_of(Instance())))
    assert deferred.method_name == "look_again"
    assert deferred.kwargs == {"on": "one: standby", "waited_s": 40.0, "told": ""}
    assert event_of(deferred) == {"waited_s": 5.0, "misses": 1}
    assert type(deferred.trigger)(event={"waited_s": 5.0}, pause_s=2.0).serialize()[1]["pause_s"] == 2.0


def test_an_approval_answer_survives_the_return_to_the_queue(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the approval task returns to the queue, the person's answer survives Airflow's serialization and reaches the
    next worker unchanged.
    """
    from airflow.sdk.serde import deserialize, serialize
    from airflow.sdk.timezone import utcnow

    from streamkeeper.orchestration.approvals import answer_form
    from streamkeeper.orchestration.recoveries import AcceptOperator

    Away(job, monkeypatch)
    answer = {
        "chosen_options": ["Approve"],
        "params_input": {"reason": "kept for a year"},
        "responded_by_user": {"id": "1", "name": "ada"},
        "responded_at": utcnow(),
    }
    instance = Instance()
    monkeypatch.setattr(Instance, "xcom_pull", lambda *_, **__: None, raising=False)
    task = AcceptOperator(task_id="accept", diagnosed="diagnose", params=answer_form())
    context = context_of(instance, job=JOB, action="restart", query=None, approve_s=60)
    deferred = put_back(lambda: task.resume_execution("execute_complete", {"event": answer}, context))
    assert deferred.method_name == "execute_complete"
    _, kwargs = deferred.trigger.serialize()
    assert deserialize(serialize(kwargs))["event"] == {**answer, "misses": 1}
    assert event_of(deferred) == {**answer, "misses": 1}
    assert job.installation.journal(JOB, "test").state().open_operation is None


def test_the_pause_before_requeueing_is_added_to_the_waited_time() -> None:
    """The pause before a task returns to the queue is added to ``waited_s`` in the event; an event without that field
    is not changed.
    """
    from streamkeeper.orchestration.triggers import PutBack

    async def fire(event: dict[str, Any]) -> Any:
        return [each.payload async for each in PutBack(event=event, pause_s=0.01).run()]

    assert asyncio.run(fire({"waited_s": 5.0, "misses": 1})) == [{"waited_s": 5.01, "misses": 1}]
    assert asyncio.run(fire({"chosen_options": ["Approve"]})) == [{"chosen_options": ["Approve"]}]


def test_a_stop_first_returns_to_the_queue_to_find_the_drivers_machine(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop first returns to the queue to find the driver's machine; without attempts left, it records the stop and
    fails because the driver cannot be proven dead from this machine.
    """
    from streamkeeper.orchestration.desired import StopOperator
    from streamkeeper.orchestration.tasks import CHANCES

    Away(job, monkeypatch)
    form = {"job": JOB, "reason": "maintenance", "drain_s": 0.2}
    put_back(lambda: StopOperator(task_id="stop").execute(context_of(Instance(), **form)))
    assert job.installation.journal(JOB, "test").state().stopped is None
    monkeypatch.setattr(job.runner, "notify", lambda *_: None)
    task = StopOperator(task_id="stop")
    task.misses = CHANCES
    with task_fails(f"cannot be proven dead from here: it runs on {AWAY}"):
        task.execute(context_of(Instance(), **form))
    assert job.installation.journal(JOB, "test").state().stopped is not None


def test_only_a_directory_lost_on_this_machine_misses_the_objective(job: Registered) -> None:
    """A checkpoint on a different machine's disk is reported but does not count as a missed objective, while a
    directory that is lost on this machine does.
    """
    from streamkeeper.orchestration.backups import missed_objectives
    from streamkeeper.runners.machine import this_machine

    said: list[str] = []
    assert list(missed_objectives(job.installation, [f"{JOB}/{QUERY}"], said.append)) == []
    assert AWAY in said[0]
    job.installation.store.delete(f"control/{JOB}/op-candidate/process-0001.json")
    job.write_process(this_machine().host)
    assert len(list(missed_objectives(job.installation, [f"{JOB}/{QUERY}"], said.append))) == 1


def test_an_operation_missing_from_this_machines_store_fails_with_advice(job: Registered) -> None:
    """A task whose operation is missing from this machine's store fails with advice to set one shared
    ``STREAMKEEPER_STORE``.
    """
    from streamkeeper.orchestration.deploy_tasks import StepOperator

    job.runner.life = Life.DEAD
    task = StepOperator(task_id="standby", step=Step.STANDBY, job=JOB, operation="opened-elsewhere")
    with task_fails(r"no operation opened-elsewhere.*set one shared STREAMKEEPER_STORE"):
        task.execute(context_of(Instance()))
