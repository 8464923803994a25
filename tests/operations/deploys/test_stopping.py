"""Stopping and starting a registered job: what is recorded, what is refused, and what a later call continues after a
kill.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from streamkeeper.errors import NotFound, OperationOpen, OperationRefused
from streamkeeper.model.protocol.driver_messages import (
    CommandKind,
    DriverExit,
    DriverState,
    DriverStatus,
    LaunchSpec,
    QueryStatus,
)
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.protocol.restart_budgets import Cause
from streamkeeper.model.records.journal_records import (
    CheckpointVersionCreated,
    DesiredChanged,
    InstanceEnded,
    OperationStarted,
)
from streamkeeper.model.requests.request import DeployRequest, StartCurrent
from streamkeeper.model.watch.job_status import JobStatus, find_standing
from streamkeeper.operations.deploys.deploy import OnOpen
from streamkeeper.operations.deploys.starting import open_start
from streamkeeper.operations.deploys.stopping import StopEnd, stop_job
from streamkeeper.operations.jobs.overview import job_overview
from streamkeeper.operations.recovery.restoring import plan_restore
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.contract import Runner
from streamkeeper.stores.local import LocalStore
from tests.operations.registered_job import JOB, QUERY, Registered

ROOT = Path(__file__).resolve().parents[3]
DRIVER = "op-candidate"
CONTINUE = OnOpen.CONTINUE


class ServedRunner(Runner):
    """A runner with a live driver that drains when it is ordered to; a ``stubborn`` driver terminates only when it is
    killed.
    """

    def __init__(self, job: Registered, *, stubborn: bool = False, elsewhere: bool = False) -> None:
        self.job, self.stubborn, self.elsewhere = job, stubborn, elsewhere
        self.alive, self.killed = True, 0

    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        raise AssertionError("nothing is to be started")

    def observe(self, job: str, instance: str) -> Liveness:
        if self.elsewhere:
            return Liveness(life=Life.UNKNOWN, why="it runs on far-away")
        return Liveness(life=Life.ALIVE if self.alive else Life.DEAD, why="seen")

    def notify(self, job: str, instance: str) -> None:
        orders = Control(self.job.installation.store, JOB, instance).commands(0)
        assert [each.kind for each in orders] == [CommandKind.DRAIN], "told once, and before it is nudged"
        assert self.job.installation.journal(JOB, "test").state().stopped is not None, "recorded before it is told"
        self.alive = self.stubborn

    def kill(self, job: str, instance: str) -> None:
        self.killed += 1
        self.alive = False


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job that was deployed once and whose driver has terminated."""
    return Registered(tmp_path)


def served(job: Registered, **traits: bool) -> ServedRunner:
    """Replace the runner by one whose driver is alive."""
    runner = ServedRunner(job, **traits)
    object.__setattr__(job.installation, "runner", runner)
    return runner


def stop(job: Registered, name: str = JOB, operation: str = "stop-1", drain_s: float = 0.2) -> StopEnd:
    return stop_job(
        job.installation, name, requested_by="ada", reason="maintenance", operation=operation, drain_s=drain_s
    )


def start(job: Registered, operation: str = "start-1", **given: object) -> object:
    return open_start(job.installation, JOB, requested_by="bob", reason="done", operation=operation, **given)  # type: ignore[arg-type]


def entries(job: Registered) -> list[object]:
    return [each.record for each in job.installation.journal(JOB, "test").entries()]


def test_a_stop_records_drains_and_proves(job: Registered) -> None:
    """A stop records the wish, drains the driver without killing it, and records its termination, in this order;
    afterwards no instance owns the checkpoints.
    """
    runner = served(job)
    assert stop(job).sentence == f"job {JOB} is stopped: r0001 no longer runs"
    wish, end = entries(job)[-2:]
    assert isinstance(wish, DesiredChanged)
    assert isinstance(end, InstanceEnded)
    assert (wish.serve, end.instance, end.operation, runner.killed) == (False, DRIVER, "stop-1", 0)
    state = job.installation.journal(JOB, "test").state()
    assert (state.owners, state.wanted, state.serving_release) == ([], False, "r0001")


def test_a_driver_that_does_not_drain_is_killed_past_the_deadline(job: Registered) -> None:
    """A stop kills a driver that has not drained by the deadline, and no instance owns the checkpoints afterwards."""
    runner = served(job, stubborn=True)
    stop(job)
    assert runner.killed == 1
    assert job.installation.journal(JOB, "test").state().owners == []


def test_a_stop_of_a_driver_on_a_different_machine_is_refused_without_proof(job: Registered) -> None:
    """A stop of a driver on a different machine is recorded but refused with that machine's command, because the
    termination cannot be proven; the next stop completes it.
    """
    served(job, elsewhere=True)
    with pytest.raises(OperationRefused, match=r"cannot be proven dead from here: .*far-away.*streamkeeper stop"):
        stop(job)
    state = job.installation.journal(JOB, "test").state()
    assert (state.wanted, len(state.owners)) == (False, 1)
    runner = served(job)
    runner.alive = False
    assert stop(job, operation="stop-2").already is False
    assert job.installation.journal(JOB, "test").state().owners == []


def test_a_second_stop_records_nothing_and_reports_the_first(job: Registered) -> None:
    """A second stop of the same job records nothing and reports who stopped it and why."""
    served(job)
    stop(job)
    before = entries(job)
    again = stop(job, operation="stop-2")
    assert again.already
    assert again.sentence == f"job {JOB} is stopped, by ada: maintenance"
    assert entries(job) == before


def test_an_invalid_stop_is_refused_and_records_nothing(job: Registered) -> None:
    """A stop is refused for an unknown job, a job that never ran and a job with an open operation, which the refusal
    names with the way out; nothing is recorded.
    """
    with pytest.raises(NotFound, match="job nope is not known"):
        stop(job, "nope")
    created = CheckpointVersionCreated(query="q", version="v0001", release="r0001", origin="x", state_format="x")
    job.installation.journal("pushed", "test").append(lambda _: created)
    with pytest.raises(OperationRefused, match="job pushed never had a current release: there is no driver to stop"):
        stop(job, "pushed")
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
    before = entries(job)
    with pytest.raises(OperationOpen, match="open operation op2 .*on_open=abort"):
        stop(job)
    assert entries(job) == before


def test_a_stop_is_refused_if_a_deploy_opens_during_the_drain(job: Registered) -> None:
    """A stop is refused if a deploy is opened while the driver drains."""

    class Deployed(ServedRunner):
        def notify(self, job: str, instance: str) -> None:
            self.job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))

    object.__setattr__(job.installation, "runner", Deployed(job))
    with pytest.raises(OperationRefused, match="operation op2 was started later"):
        stop(job)


POINTS = (
    "stop.record.before",
    "record.desired-changed.after",
    "stop.send.before",
    "command.drain.after",
    "stop.send.after",
    "stop.recordend.before",
    "record.instance-ended.after",
)
STOPPER = """
import sys
from pathlib import Path
from tests.operations.deploys.test_stopping import reopened, stop
stop(reopened(Path(sys.argv[1])), operation=sys.argv[2])
"""


def reopened(root: Path) -> Registered:
    """Return the same job as a second process opens it; its driver is alive until it has an order to drain."""
    job = Registered(root / "unused")
    object.__setattr__(job.installation, "store", LocalStore(root / "store"))
    runner = served(job)
    runner.alive = not Control(job.installation.store, JOB, DRIVER).commands(0)
    return job


@pytest.mark.parametrize("point", POINTS)
def test_a_stop_that_is_killed_is_continued_by_the_next_one(job: Registered, tmp_path: Path, point: str) -> None:
    """A stop that is killed at any failpoint is continued by the next one; afterwards exactly one wish, one order and
    one termination are recorded.
    """
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    words = [sys.executable, "-c", STOPPER, str(tmp_path)]
    killed = subprocess.run(
        [*words, "stop-1"], env={**environ, "STREAMKEEPER_CRASH": point}, cwd=ROOT, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    again = subprocess.run([*words, "stop-2"], env=environ, cwd=ROOT, capture_output=True, check=False)
    assert again.returncode == 0, again.stderr.decode()[-2000:]
    found = entries(job)
    assert sum(isinstance(each, DesiredChanged) for each in found) == 1
    assert sum(isinstance(each, InstanceEnded) for each in found) == 1
    assert len(Control(job.installation.store, JOB, DRIVER).commands(0)) == 1
    assert job.installation.journal(JOB, "test").state().owners == []


STARTER = """
import sys
from pathlib import Path
from tests.operations.deploys.test_stopping import CONTINUE, reopened, start
job = reopened(Path(sys.argv[1]))
job.installation.runner.alive = False
start(job, sys.argv[2], on_open=CONTINUE)
"""
START_POINTS = (
    "start.record.before",
    "record.desired-changed.after",
    "start.record.after",
    "record.operation-started.before",
    "record.operation-started.after",
)


@pytest.mark.parametrize("point", START_POINTS)
def test_a_start_that_is_killed_is_continued_by_the_next_one(job: Registered, tmp_path: Path, point: str) -> None:
    """A start that is killed at any failpoint is continued by the next one; afterwards exactly one wish and one
    operation are recorded.
    """
    stop(job)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    words = [sys.executable, "-c", STARTER, str(tmp_path)]
    killed = subprocess.run(
        [*words, "start-1"], env={**environ, "STREAMKEEPER_CRASH": point}, cwd=ROOT, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    again = subprocess.run([*words, "start-2"], env=environ, cwd=ROOT, capture_output=True, check=False)
    assert again.returncode == 0, again.stderr.decode()[-2000:]
    found = entries(job)
    assert sum(isinstance(each, DesiredChanged) and each.serve for each in found) == 1
    assert (
        sum(isinstance(each, OperationStarted) and isinstance(each.request.kind, StartCurrent) for each in found) == 1
    )


def test_a_start_opens_a_deploy_that_resumes_the_last_release(job: Registered) -> None:
    """A start opens a deploy that resumes the last release without a probation, after it has recorded the wish; a
    second call with the same id returns the same start.
    """
    stop(job)
    deploy = start(job)
    state = job.installation.journal(JOB, "test").state()
    operation = state.operations["start-1"].request
    assert (operation.release, operation.strategy.value, operation.probation_batches) == ("r0001", "resume", 0)
    assert state.wanted
    wish, opened = entries(job)[-2:]
    assert isinstance(wish, DesiredChanged)
    assert isinstance(opened, OperationStarted)
    assert start(job).operation == deploy.operation == "start-1"  # type: ignore[attr-defined]


def test_a_job_with_a_running_driver_is_not_started(job: Registered) -> None:
    """A start does nothing while the driver runs, but opens a deploy once the driver has an order to drain."""
    served(job)
    assert start(job) is None
    Control(job.installation.store, JOB, DRIVER).send(CommandKind.DRAIN, "op")
    assert start(job) is not None


def test_a_start_is_refused_with_an_unobservable_driver_or_an_open_operation(job: Registered) -> None:
    """A start is refused if the driver cannot be observed or an operation is open."""
    served(job, elsewhere=True)
    with pytest.raises(OperationRefused, match=r"cannot be observed from here: it runs on far-away"):
        start(job)
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
    with pytest.raises(OperationOpen, match="op2"):
        start(job)


def test_a_start_with_unless_stopped_does_not_start_a_stopped_job(job: Registered) -> None:
    """A start with ``unless_stopped``, as the watch requests it, does not start a job that a person has stopped.
    Negative control: it starts a job that is wanted and dead.
    """
    stop(job)
    before = entries(job)
    with pytest.raises(OperationRefused, match="was stopped by ada"):
        start(job, unless_stopped=True)
    assert entries(job) == before
    job.record(DesiredChanged(serve=True, requested_by="ada", reason=""))
    assert start(job, unless_stopped=True) is not None


def test_a_job_whose_driver_finished_can_be_started(job: Registered) -> None:
    """A job whose driver has recorded that it finished, such as an availableNow job, can be started."""
    Control(job.installation.store, JOB, DRIVER).write_exit(
        DriverExit(instance=DRIVER, state=DriverState.FINISHED, code=3)
    )
    assert start(job) is not None


def test_a_restore_refused_for_a_running_driver_names_the_stop_command(job: Registered) -> None:
    """A restore is refused while the driver runs, and the refusal names the stop command; after the stop the restore
    can be planned.
    """
    job.write_table(7)
    name = job.take()
    served(job)
    snapshot = next(each for each in job.catalogue.snapshots() if each.name == name)
    with pytest.raises(OperationRefused, match=f"first run `streamkeeper stop {JOB}"):
        plan_restore(job.installation, JOB, QUERY, snapshot)
    stop(job)
    assert plan_restore(job.installation, JOB, QUERY, snapshot).version == "v0002"


def standing(
    state: DriverState,
    *,
    generation: int = 1,
    cause: str = "",
    stopped: bool = False,
    life: Life = Life.ALIVE,
    **query: int,
) -> JobStatus:
    """Return the status of a job with one query in this condition."""
    told = {"q": QueryStatus(query="q", version="v0001", epoch=1, **query)}  # type: ignore[arg-type]
    status = DriverStatus(
        instance="i", release="r0001", generation=generation, state=state, beat=1, at="", queries=told, cause=cause
    )
    return find_standing(ObservedDriver(status=status, liveness=Liveness(life=life, why="")), stopped=stopped)


def test_a_restarted_driver_is_restarting_until_it_completes_a_trigger() -> None:
    """A driver that was restarted is shown as RESTARTING until it completes a trigger. Negative control: with a
    completed trigger it is shown as SERVING.
    """
    serving = DriverState.SERVING
    assert standing(serving, generation=2) is JobStatus.RESTARTING
    assert standing(DriverState.STARTING, generation=2) is JobStatus.RESTARTING
    assert standing(DriverState.STARTING, cause=Cause.FAILURE.value) is JobStatus.RESTARTING
    assert standing(serving, triggers=9, failures=1) is JobStatus.RESTARTING
    assert standing(serving, generation=2, triggers=1) is JobStatus.SERVING
    assert standing(serving) is JobStatus.SERVING
    assert standing(DriverState.STARTING) is JobStatus.STARTING


def test_waiting_draining_and_stopped_jobs_are_shown_by_state() -> None:
    """A driver that waits for a dependency or for capacity is shown as WAITING; a stopped job is shown as DRAINING, and
    as STOPPED once its driver is dead.
    """
    for cause in (Cause.DEPENDENCY, Cause.CAPACITY):
        assert standing(DriverState.SERVING, cause=cause.value, triggers=3, failures=7) is JobStatus.WAITING
    assert standing(DriverState.SERVING, stopped=True) is JobStatus.DRAINING
    assert standing(DriverState.SERVING, stopped=True, life=Life.DEAD) is JobStatus.STOPPED
    assert standing(DriverState.SERVING, stopped=False, life=Life.DEAD) is JobStatus.FAILED


def test_the_overview_shows_who_stopped_a_job_and_why(job: Registered) -> None:
    """The overview that ``jobs`` and ``status`` print shows who stopped the job and why."""
    stop(job)
    seen = job_overview(job.installation, JOB)
    assert (seen.standing, seen.stopped.requested_by, seen.stopped.reason) == (JobStatus.STOPPED, "ada", "maintenance")
    job.record(DesiredChanged(serve=True, requested_by="bob", reason=""))
    assert job_overview(job.installation, JOB).standing is JobStatus.FAILED
