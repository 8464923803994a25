"""The tasks that stop and start a job, run on the installed job whose driver has terminated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamkeeper.model.records.journal_records import OperationStarted
from streamkeeper.model.requests.request import DeployRequest, StartCurrent
from streamkeeper.operations.jobs.carriers import is_abandoned
from streamkeeper.operations.jobs.overview import JobStatus, job_overview
from streamkeeper.runners.driver_log import DriverLog
from tests.operations.registered_job import JOB, Registered
from tests.orchestration.installed import install
from tests.orchestration.running import Instance, context_of, task_fails

pytestmark = pytest.mark.airflow


class Task(Instance):
    """A task of a run in which no earlier task has pushed a value."""

    def xcom_pull(self, **_: Any) -> None:
        """Return nothing."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    return install(tmp_path, monkeypatch)


def stop(job: str = JOB) -> str:
    """Return the result of the stop task."""
    from streamkeeper.orchestration.desired import StopOperator

    form = {"job": job, "reason": "maintenance", "drain_s": 5.0}
    return str(StopOperator(task_id="stop").execute(context_of(Task(), **form)))


def start(job: str = JOB) -> None:
    """Run the start task, which opens the start but launches no driver, because its first step fails."""
    from streamkeeper.orchestration.desired import StartOperator

    StartOperator(task_id="start").execute(context_of(Task(), job=job, reason="maintenance"))


def test_a_stop_is_recorded_with_its_requester_and_reason(job: Registered) -> None:
    """A stop is recorded with its requester and reason; a second stop is skipped with a sentence about the first."""
    from airflow.sdk.exceptions import AirflowSkipException

    assert stop() == f"job {JOB} is stopped: r0001 no longer runs"
    seen = job_overview(job.installation, JOB)
    assert seen.stopped is not None
    assert (seen.standing, seen.stopped.requested_by, seen.stopped.reason) == (JobStatus.STOPPED, "ada", "maintenance")
    with pytest.raises(AirflowSkipException, match=r"is stopped, by ada: maintenance; nothing to do"):
        stop()


def test_the_drivers_last_lines_are_in_the_tasks_log(job: Registered, capsys: pytest.CaptureFixture[str]) -> None:
    """The stop task's log contains the driver's last lines, with secrets masked."""
    log = DriverLog(job.installation.settings.log(JOB, "op-candidate"), {"secret://env/X": "hunter22"})
    log.feed(b"opened with hunter22\n")
    stop()
    told = capsys.readouterr().out
    assert "driver | opened with ***" in told
    assert "hunter22" not in told


def test_an_invalid_stop_or_start_fails_with_one_clear_line(job: Registered) -> None:
    """A stop or a start of an unknown job, or of one with an open operation, fails with a single clear line."""
    for task in (stop, start):
        with task_fails("job nope is not known"):
            task("nope")
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
    for task in (stop, start):
        with task_fails("open operation op2 .*on_open=continue"):
            task()


def test_a_start_records_the_wish_before_its_operation(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that fails after it was opened leaves the recorded wish and an open operation that belongs to the DAG
    run.
    """
    from streamkeeper.operations.deploys.deploy import Deploy

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    stop()
    monkeypatch.setattr(Deploy, "advance", fails)
    with pytest.raises(ZeroDivisionError):
        start()
    state = job.installation.journal(JOB, "test").state()
    assert state.stopped is None
    assert state.open_operation is not None
    assert (state.open_operation.request.kind, state.open_operation.request.release) == (StartCurrent(), "r0001")
    operation = state.open_operation.operation
    assert is_abandoned(job.installation.store, JOB, operation, lambda dag, run: (dag, run) == ("a_dag", "manual__1"))
    assert not is_abandoned(
        job.installation.store, JOB, operation, lambda dag, run: (dag, run) == ("a_dag", "manual__2")
    )
