"""Tests of ``stop``, ``start``, ``forget``, ``logs`` and ``status --watch``: their errors, and where a log is found."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen

import msgspec
import pytest
from typer.testing import CliRunner, Result

from harness.processes import killed_after
from streamkeeper.cli import deploying
from streamkeeper.cli.command_results import Report
from streamkeeper.cli.main import app
from streamkeeper.errors import KeyMissing
from streamkeeper.model.protocol.driver_messages import LaunchMode, LaunchSpec, ProcessRecord
from streamkeeper.model.records.journal_records import OperationFinished, OperationStarted, Outcome
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.jobs.carriers import Carrier, is_abandoned
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.driver_log import DriverLog
from streamkeeper.runners.machine import this_machine
from tests.operations.registered_job import JOB, Registered
from tests.orchestration.installed import install

ROOT = Path(__file__).resolve().parents[2]
DRIVER = "op-candidate"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """A job that was deployed once and whose driver has terminated."""
    monkeypatch.setenv("COLUMNS", "300")
    return install(tmp_path, monkeypatch)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def written(job: Registered, text: str) -> DriverLog:
    """Write this text to the log of the job's driver and return the log."""
    log = DriverLog(job.installation.settings.log(JOB, DRIVER), {"secret://env/X": "hunter22"})
    log.feed(text.encode())
    return log


def test_a_second_stop_reports_that_the_job_is_already_stopped(job: Registered) -> None:
    """A stop reports that the job is stopped, and a second stop that there is nothing to do; both exit with 0 and the
    history has the requester.
    """
    first = run("stop", JOB, "--reason", "maintenance")
    assert (first.exit_code, f"job {JOB} is stopped" in first.output) == (0, True)
    again = run("stop", JOB, "--reason", "again")
    assert again.exit_code == 0
    assert "maintenance; nothing to do" in again.output
    assert "stop requested by cli:" in run("history", JOB).output
    assert "stopped" in run("jobs").output


def test_a_refused_stop_or_start_exits_with_2_and_records_nothing(job: Registered) -> None:
    """An unknown job and an open operation are refused with exit code 2, and a refused stop or start records
    nothing.
    """
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
    for verb in (("stop", "nope", "--reason", "a test"), ("start", "nope"), ("logs", "nope")):
        refused = run(*verb)
        assert (refused.exit_code, "job nope is not known" in refused.output) == (2, True)
    for verb in (("stop", JOB, "--reason", "a test"), ("start", JOB)):
        refused = run(*verb)
        assert refused.exit_code == 2
        assert "has an open operation op2" in refused.output
        assert len(refused.output.strip().splitlines()) == 1
    assert job.installation.journal(JOB, "test").state().stopped is None


def test_start_records_the_process_that_carries_out_its_operation(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``start`` records the process that carries out its operation before it follows it. Negative control: without that
    call nothing is recorded.
    """
    noted: list[Carrier] = []

    def look(_: Report, running: Deploy, *, stays: bool) -> None:
        key = f"carriers/{JOB}/{running.operation}.json"
        with suppress(KeyMissing):
            noted.append(msgspec.json.decode(job.installation.store.read(key), type=Carrier))
        raise KeyboardInterrupt

    monkeypatch.setattr(deploying, "follow_operation", look)
    run("start", JOB)
    assert [each.pid for each in noted] == [os.getpid()]
    operation = job.installation.journal(JOB, "test").state().open_operation
    assert operation is not None
    assert not is_abandoned(job.installation.store, JOB, operation.operation)
    monkeypatch.setattr(deploying, "note_carrier", lambda *_: None)
    job.record(OperationFinished(operation=operation.operation, outcome=Outcome.ABORTED, sentence=""))
    run("start", JOB)
    assert len(noted) == 1


def test_a_deploy_of_a_stopped_job_says_so_in_its_plan(job: Registered) -> None:
    """The plan for a deploy of a stopped job states that the job runs again, and who stopped it and why. Negative
    control: a running job's plan does not mention a stop.
    """
    from streamkeeper.lifecycle.steps import plan_deploy

    run("stop", JOB, "--reason", "maintenance")
    stopped = job.installation.journal(JOB, "test").state().stopped
    last = plan_deploy(DeployRequest(job=JOB), serving="r0001", stopped=stopped)[-1].does
    assert "the job, stopped by cli:" in last
    assert "(maintenance), runs again" in last
    assert "stopped" not in plan_deploy(DeployRequest(job=JOB), serving="r0001")[-1].does


def test_logs_shows_the_last_lines_without_secrets(job: Registered) -> None:
    """``logs`` shows the last lines of the current driver's log, or of the instance given by name, without secrets; an
    unknown instance is refused.
    """
    written(job, "one\ntwo with hunter22\nthree\n")
    told = run("logs", JOB, "--lines", "2")
    assert told.exit_code == 0
    assert told.output.splitlines()[1:] == ["three"]
    assert "hunter22" not in told.output
    assert run("logs", JOB, "--instance", DRIVER).output.splitlines()[0] == "one"
    assert "has no instance nobody" in run("logs", JOB, "--instance", "nobody").output


def test_a_log_on_another_machine_says_which(job: Registered) -> None:
    """``logs`` names the host and the path of a log on a different machine, and reports when no machine has recorded
    that it started the driver.
    """
    assert f"no machine has recorded that it started {DRIVER}" in run("logs", JOB).output
    here = this_machine()
    Control(job.installation.store, JOB, DRIVER).write_process(
        ProcessRecord(instance=DRIVER, generation=1, machine=here.text, host="far-away", pid=1, started=1)
    )
    told = run("logs", JOB)
    assert told.exit_code == 2
    assert f", but in logs/{JOB}/{DRIVER}.log of the home on far-away" in told.output


def test_following_ends_cleanly_with_ctrl_c(job: Registered) -> None:
    """``logs --follow`` prints new lines as they are written, and Ctrl-C terminates it with exit code 0 and no
    traceback.
    """
    log = written(job, "one\n")
    spec = LaunchSpec(
        instance=DRIVER, job=JOB, release="r0001", mode=LaunchMode.STANDBY, bundle="", entry="", params={}, conf={},
        checkpoints="",
    )  # fmt: skip
    Control(job.installation.store, JOB, DRIVER).write_launch(spec)
    words = [sys.executable, "-m", "streamkeeper.cli.main", "logs", JOB, "--follow"]
    with killed_after(Popen(words, stdout=PIPE, stderr=PIPE, text=True, cwd=ROOT)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        log.feed(b"two\n")
        assert process.stdout.readline() == "two\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
        assert (process.returncode, error) == (0, "")


def test_status_is_watched_in_a_pipe_as_well(job: Registered) -> None:
    """``status --watch`` prints one status after the other into a pipe until Ctrl-C, which exits with 0."""
    words = [sys.executable, "-m", "streamkeeper.cli.main", "status", JOB, "--watch"]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with killed_after(Popen(words, stdout=PIPE, stderr=PIPE, text=True, cwd=ROOT, env=environ)) as process:
        assert process.stdout is not None
        pictures = (line for line in process.stdout if line.startswith("status"))
        assert next(pictures) == next(pictures)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
        assert (process.returncode, error) == (0, "")


def test_forget_requires_a_stopped_job_and_lists_what_is_kept(job: Registered) -> None:
    """``forget`` is refused until the job is stopped, then lists what is kept, with the same output when repeated;
    ``jobs``, ``status`` and ``history`` show the forgotten job, and ``start`` is refused.
    """
    refused = run("forget", JOB, "--reason", "the shop has closed")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert (
        f"job {JOB} is not stopped; its current release is r0001 (first run `streamkeeper stop {JOB} --reason …`)"
        in refused.stderr
    )
    run("stop", JOB, "--reason", "maintenance")
    done = run("forget", JOB, "--reason", "the shop has closed")
    assert done.exit_code == 0, done.stderr
    assert f"kept: checkpoint {job.directory}" in done.stdout
    assert run("forget", JOB, "--reason", "again").stdout == done.stdout
    shown = run("jobs").stdout
    assert "was forgotten. Deploy one of them with `--revive`, or deploy a new job" in shown
    assert f"forgotten: {JOB}" in shown
    assert "the shop has closed" in run("status", JOB).stdout
    assert "forgotten by cli:" in run("history", JOB).stdout
    again = run("start", JOB)
    assert again.exit_code == 2
    assert "its old checkpoint still exists" in again.stderr
