"""Tests of ``recover`` on a registered job without a driver: its output, its refusals and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from streamkeeper.cli import deploying
from streamkeeper.cli.main import app
from streamkeeper.compatibility.report import told_way
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.finding import Assessment, QueryAssessment, Verdict
from streamkeeper.model.records.journal_records import Assessed, OperationFinished, Outcome
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.diagnosis import RecoveryAction
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.deploy import Deploy, Progress, ProgressKind
from streamkeeper.operations.recovery.recovering import RecoveryRequest, open_recovery
from streamkeeper.registry.objects import put_object
from tests.checkpoints.damaging import lose
from tests.operations.recovery.test_recovering import registered
from tests.operations.registered_job import JOB, QUERY, Registered

RESTORED = QueryTransition(way=Transition.RESTORE, before="v0001", version="v0002", batch=7, snapshot="s0001")


def assessed(job: Registered, way: QueryTransition) -> Assessed:
    """Return the assessment that a restore records: the verdict REFUSE on the damaged checkpoint, and the path of the
    restore.
    """
    judged = Assessment(verdict=Verdict.REFUSE, queries={QUERY: QueryAssessment(verdict=Verdict.REFUSE)})
    return Assessed(
        operation="",
        verdict=Verdict.REFUSE,
        reverse=Verdict.REFUSE,
        sentence=f"RESTORE: query {QUERY}: {told_way(way)}",
        report=put_object(job.installation.store, JOB, "reports", to_json(judged), ".json"),
        transitions={QUERY: way},
        refusal="",
        evidence="",
    )


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """A registered job, with the environment variables that refer to its installation."""
    job = registered(tmp_path)
    settings = job.installation.settings
    for name, value in (("HOME", settings.home), ("STORE", settings.store), ("CHECKPOINTS", settings.checkpoints)):
        monkeypatch.setenv(f"STREAMKEEPER_{name}", value)
    return job


def recover(*words: str) -> Result:
    return CliRunner().invoke(app, ["recover", JOB, *words])


def test_recover_without_action_prints_the_diagnosis_and_writes_nothing(job: Registered) -> None:
    """``recover`` without an action prints the cause, the evidence, the runbook and the possible actions, exits with 1
    and writes nothing to the journal.
    """
    job.take()
    lose(job.directory, "missing")
    before = job.installation.journal(JOB, "test").state().number
    done = recover()
    assert done.exit_code == 1, done.output
    for part in ("checkpoint-lost", "is missing", "Runbook: A checkpoint is lost", "restore", "s0001"):
        assert part in " ".join(done.output.split())
    assert job.installation.journal(JOB, "test").state().number == before


def test_recover_json_prints_the_diagnosis_as_one_object(job: Registered) -> None:
    """``recover --json`` prints the diagnosis as one JSON object with the actions in order of preference."""
    job.take()
    lose(job.directory, "missing")
    told = json.loads(recover("--json").stdout)
    assert (told["cause"], told["heading"]) == (
        "checkpoint-lost", "A checkpoint is lost or damaged beyond repair",
    )  # fmt: skip
    assert told["options"][0]["action"] == "restore"
    assert told["options"][0]["snapshots"] == {QUERY: "s0001"}


def test_an_unreachable_store_is_diagnosed_and_actions_are_refused(job: Registered) -> None:
    """A store that is out of reach is diagnosed as the cause, and an action is refused in one line that names the
    store.
    """
    store = Path(job.installation.settings.store)
    store.rename(store.with_name("hidden"))
    store.write_text("not a directory")
    done = recover("--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["cause"], told["heading"]) == (1, "store-out-of-reach", "The store is down")
    refused = recover("--action", "restart")
    assert (refused.exit_code, len(refused.output.strip().splitlines())) == (2, 1)
    assert "store file://" in refused.output


def test_a_dry_run_prints_the_steps_and_opens_nothing(job: Registered) -> None:
    """``recover --action restore --dry-run`` prints the steps of the restore and opens no operation."""
    job.take()
    lose(job.directory, "missing")
    done = recover("--action", "restore", "--dry-run")
    assert done.exit_code == 0, done.output
    steps = [
        "bundle",
        "standby",
        "assess",
        "drain",
        "prove-dead",
        "restore",
        "go",
        "first-commit",
        "snapshot",
        "probation",
        "promote",
    ]
    assert [step.label for step in Step if f"\n│ {step.label} " in done.output] == steps
    assert "only:" not in done.output
    assert "take the current release, r0001" in done.output
    assert job.installation.journal(JOB, "test").state().open_operation is None


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("--action", "restart"),
            "restart of sales is not possible: query totals: its checkpoint is not the recorded one",
        ),
        (("--action", "restore", "--accept-loss"), "--accept-loss and --accept-replay require a reason"),
        (("--action", "restore", "--snapshot", "s0001"), "is not QUERY=ID"),
        (("--action", "restart", "--snapshot", "totals=s0001"), "a snapshot can be named only for the action restore"),
        (("--query", "nope"), "query 'nope' is not known (use one of: totals)"),
        (("--action", "restore", "--snapshot", "nope=s0001"), "query 'nope' is not known (use one of: totals)"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(job: Registered, words: tuple[str, ...], line: str) -> None:
    """Invalid input to ``recover`` is refused with exit code 2 and opens no operation."""
    lose(job.directory, "missing")
    done = recover(*words)
    assert (done.exit_code, line in " ".join(done.stderr.split())) == (2, True), done.output
    assert job.installation.journal(JOB, "test").state().open_operation is None


def test_a_restore_with_data_loss_requires_accept_loss(job: Registered) -> None:
    """A restore that may lose data is refused without ``--accept-loss``; the error states the possible loss and names
    the option.
    """
    job.take()
    job.commit(8)
    job.report(committed=8)
    lose(job.directory, "missing")
    done = recover("--action", "restore", "--accept-replay", "--reason", "they are all there")
    assert done.exit_code == 2
    told = " ".join(done.stderr.split())
    assert "LOSES possibly some of it" in told
    assert "--accept-loss" in told


def test_history_shows_a_recovery_with_action_cause_and_requester(job: Registered) -> None:
    """``history`` shows a recovery in one line with its action, cause, release, requester and reason."""
    job.take()
    lose(job.directory, "missing")
    request = DeployRequest(job=JOB, reason="disk", requested_by="ada")
    asked = RecoveryRequest(request=request, action=RecoveryAction.RESTORE)
    open_recovery(job.installation, "op2", asked)
    told = CliRunner().invoke(app, ["history", JOB]).output
    assert "op2 started: restore (checkpoint-lost) of r0001, warm handover, by ada, reason: disk" in told


def test_a_finished_restore_prints_its_path_and_not_the_verdict(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished restore prints the path it took on stderr, not the verdict REFUSE on the abandoned checkpoint; with
    ``--json`` stdout contains only the diagnosis.
    """
    job.take()
    lose(job.directory, "missing")

    def end(_: object, running: Deploy, **__: object) -> Progress:
        operation = running.operation
        record = msgspec.structs.replace(assessed(job, RESTORED), operation=operation)
        job.record(record)
        job.record(OperationFinished(operation=operation, outcome=Outcome.SUCCEEDED, sentence="r0001 is running"))
        return Progress(kind=ProgressKind.ENDED, step=Step.PROMOTE, sentence="", outcome=Outcome.SUCCEEDED)

    monkeypatch.setattr(deploying, "follow_operation", end)
    done = recover("--action", "restore", "--reason", "the disk lost a file", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["cause"] == "checkpoint-lost"
    assert done.stderr == f"recovery: RESTORE: query {QUERY}: {told_way(RESTORED)}\n"


def test_an_interrupted_recovery_is_not_called_a_deploy(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C during a recovery prints the ``recover`` command that continues it."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    job.take()
    lose(job.directory, "missing")
    monkeypatch.setattr(Deploy, "run", interrupt)
    done = recover("--action", "restore", "--reason", "the disk lost a file")
    assert done.exit_code == 130
    assert f"To continue it, run `streamkeeper recover {JOB} --action restore`." in done.stderr
