"""Tests of ``--json`` for commands that act: each prints exactly one object of one shape on stdout, whatever
happens.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from streamkeeper.cli import deploying
from streamkeeper.cli.main import app
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.finding import Assessment, QueryAssessment, Verdict
from streamkeeper.model.records.journal_records import Assessed, OperationFinished, OperationStarted, Outcome
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.deploy import Deploy, Progress, ProgressKind
from streamkeeper.registry.objects import put_object
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.orchestration.asking import ask
from tests.orchestration.installed import install

KEYS = {"command", "job", "operation", "outcome", "message", "hint", "details"}
OPERATION = "op-asks"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """A job that was deployed once and whose driver has terminated."""
    return install(tmp_path, monkeypatch)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def result_of(*words: str, code: int = 0) -> dict[str, Any]:
    """Run a command with ``--json`` and return the object that it prints, which must be all of its stdout."""
    done = run(*words, "--json")
    assert done.exit_code == code, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    assert set(found) == KEYS
    return found


def assessed(job: Registered, verdict: Verdict, way: QueryTransition | None, *, refusal: str = "") -> Assessed:
    """Return the assessment of a candidate that an operation records."""
    judged = Assessment(verdict=verdict, queries={QUERY: QueryAssessment(verdict=verdict)})
    return Assessed(
        operation="op2",
        verdict=verdict,
        reverse=verdict,
        sentence=f"{verdict.name}: as a test has it",
        report=put_object(job.installation.store, JOB, "reports", to_json(judged), ".json"),
        transitions={QUERY: way} if way is not None else {},
        refusal=refusal,
        evidence="",
    )


def follow(job: Registered, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, record: Assessed) -> None:
    """Make every deploy record this assessment and finish with this outcome as soon as it is followed."""

    def end(_: object, running: Deploy, **__: object) -> Progress:
        journal = job.installation.journal(JOB, "test")
        journal.append(lambda _: replace(record, operation=running.operation))
        over = OperationFinished(operation=running.operation, outcome=outcome, sentence="this is the end")
        journal.append(lambda _: over)
        return Progress(kind=ProgressKind.ENDED, step=Step.PROMOTE, sentence="this is the end", outcome=outcome)

    monkeypatch.setattr(deploying, "open_deploy", Deploy.open)
    monkeypatch.setattr(deploying, "follow_operation", end)


def deploy(*words: str) -> tuple[str, ...]:
    return ("deploy", JOB, "--release", "r0001", "--reason", "a test", *words)


def test_a_deploy_prints_its_outcome_its_verdict_and_its_paths(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deploy with ``--json`` prints its outcome, its operation, the current release, the verdict and the path of each
    query.
    """
    record = assessed(job, Verdict.RESUME, QueryTransition(way=Transition.RESUME, before="v0001", version="v0001"))
    follow(job, monkeypatch, Outcome.SUCCEEDED, record)
    told = result_of(*deploy())
    assert (told["command"], told["job"], told["outcome"]) == ("deploy", JOB, "succeeded")
    assert told["operation"] in job.installation.journal(JOB, "test").state().operations
    assert told["message"] == "this is the end"
    details = told["details"]
    assert (details["current_release"], details["verdict"], details["steps"]) == ("r0001", "RESUME", [])
    assert details["ways"][QUERY]["way"] == "resume"


def test_a_failed_deploy_prints_its_outcome_and_exits_with_2(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed deploy prints its outcome and names the current release in the hint, with exit code 2; without
    ``--json`` the same error is one line on stderr.
    """
    follow(job, monkeypatch, Outcome.FELL_BACK, assessed(job, Verdict.RESUME, QueryTransition(way=Transition.RESUME)))
    told = result_of(*deploy(), code=2)
    assert (told["outcome"], told["hint"]) == ("fell-back", "r0001 is the current release")
    assert "this is the end" in told["message"]
    assert told["details"]["verdict"] == "RESUME"
    again = run(*deploy())
    assert again.stderr == f"error: job {JOB}: this is the end (r0001 is the current release)\n"


@pytest.mark.parametrize(
    ("way", "steps"),
    [
        (
            QueryTransition(way=Transition.RESUME, before="v0001", version="v0001"),
            "bundle standby assess drain prove-dead go first-commit snapshot probation promote",
        ),
        (
            QueryTransition(way=Transition.REBUILD, before="v0001", version="v0002"),
            "bundle standby assess shadow catch-up compare review drain prove-dead catch-up-after-drain go"
            " first-commit snapshot probation promote",
        ),
        (
            QueryTransition(way=Transition.RESUME, before="v0001", version="v0001", opaque=True),
            "bundle standby assess keep-state approve ready drain prove-dead go first-commit snapshot probation"
            " promote",
        ),
    ],
    ids=["resume", "rebuild", "backup"],
)
def test_a_dry_run_prints_only_the_steps_that_the_deploy_would_take(
    job: Registered, monkeypatch: pytest.MonkeyPatch, way: QueryTransition, steps: str
) -> None:
    """A dry run prints exactly the steps that the deploy would take under its verdict, as JSON and as a table below the
    assessment.
    """
    follow(job, monkeypatch, Outcome.DRY_RUN, assessed(job, Verdict.RESUME, way))
    told = result_of(*deploy("--dry-run"))
    assert told["outcome"] == "dry-run"
    assert [each["step"] for each in told["details"]["steps"]] == steps.split()
    assert "only:" not in json.dumps(told)
    shown = run(*deploy("--dry-run")).stdout
    assert [word for word in steps.split() if f" {word} " not in shown] == []
    assert [step.label for step in Step if f"\n│ {step.label} " in shown] == steps.split()
    assert shown.index("verdict: ") < shown.index("prove-dead")


def test_a_dry_run_that_is_refused_prints_no_steps(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run whose candidate is refused prints the refusal and no steps, with exit code 1."""
    follow(job, monkeypatch, Outcome.DRY_RUN, assessed(job, Verdict.REFUSE, None, refusal="it cannot resume"))
    told = result_of(*deploy("--dry-run"), code=1)
    assert (told["outcome"], told["details"]["refusal"], told["details"]["steps"]) == (
        "dry-run", "it cannot resume", [],
    )  # fmt: skip
    shown = run(*deploy("--dry-run"))
    assert (shown.exit_code, "prove-dead" in shown.stdout) == (1, False)


@pytest.mark.parametrize("dry_run", [("--dry-run",), ()], ids=["dry run", "deploy"])
def test_an_error_is_printed_as_a_json_result_with_its_remedy(job: Registered, dry_run: tuple[str, ...]) -> None:
    """With ``--json`` an error is printed as a result object with the remedy spelled as command-line options; without
    it stderr has the same text in one line.
    """
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
    told = result_of(*deploy(*dry_run), code=2)
    assert (told["outcome"], told["operation"]) == ("error", "op2")
    assert told["message"] == f"job {JOB} has an open operation op2"
    assert told["hint"] == "add --on-open continue to continue that operation, or --on-open abort to end it first"
    plain = run(*deploy(*dry_run))
    assert plain.stdout == ""
    assert plain.stderr == f"error: {told['message']} ({told['hint']})\n"


REFUSED_AT_ONCE = [
    ("deploy", "Not-A-Name"),
    ("deploy", JOB, "--params", "{"),
    ("stop", "Not-A-Name", "--reason", "nobody reads it"),
    ("stop", JOB, "--reason", "nobody reads it", "--drain-s", "1e9"),
]


@pytest.mark.parametrize("words", REFUSED_AT_ONCE)
def test_an_early_refusal_is_printed_as_a_json_result(job: Registered, words: tuple[str, ...]) -> None:
    """A request that is refused before the installation is read is printed as a result object as well."""
    told = result_of(*words, code=2)
    assert (told["outcome"], told["command"]) == ("error", words[0])
    assert run(*words).stderr.startswith(f"error: {told['message']}")


def test_ctrl_c_is_printed_as_a_json_result_with_exit_code_130(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C is printed as a result with outcome ``interrupted`` and exit code 130; the operation stays open, and the
    message names the command that continues it.
    """

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Deploy, "run", interrupt)
    told = result_of("start", JOB, code=130)
    assert told["outcome"] == "interrupted"
    assert f"operation {told['operation']} of job {JOB} stays open" in told["message"]
    assert f"To continue it, run `streamkeeper start {JOB}`." in told["message"]


def test_stop_and_forget_json_report_repetition_and_kept_checkpoints(job: Registered) -> None:
    """``stop --json`` reports in the field ``already`` whether the job was stopped before, and ``forget --json`` lists
    the checkpoints that are kept.
    """
    first, again = (result_of("stop", JOB, "--reason", "maintenance") for _ in range(2))
    assert [each["details"]["already"] for each in (first, again)] == [False, True]
    assert (first["outcome"], first["operation"]) == ("succeeded", None)
    forgotten = result_of("forget", JOB, "--reason", "maintenance")
    assert any("checkpoint" in line for line in forgotten["details"]["lines"])


def test_history_has_each_record(job: Registered) -> None:
    """``history --json`` contains the number, the sentence and the record of each entry, and ``--limit`` applies."""
    told = result_of("history", JOB)
    entries = told["details"]["entries"]
    assert [each["number"] for each in entries] == list(range(1, len(entries) + 1))
    assert {"release-registered", "operation-started"} <= {each["record"]["type"] for each in entries}
    lines = run("history", JOB).stdout.splitlines()
    assert [line.endswith(each["sentence"]) for line, each in zip(lines, entries, strict=True)] == [True] * len(lines)
    assert result_of("history", JOB, "--limit", "2")["details"]["entries"] == entries[-2:]


def test_question_json_is_printed_and_decline_after_approve_is_an_error(job: Registered) -> None:
    """``question --json`` prints the question as Markdown with its operation and release; ``approve`` prints the answer
    with its reason, and a later ``decline`` is an error.
    """
    ask(job, OPERATION)
    asked = result_of("question", JOB, OPERATION)
    assert (asked["operation"], asked["details"]["about"], asked["details"]["release"]) == (OPERATION, "state", "r0002")
    assert "### " in asked["details"]["question"]
    approved = result_of("approve", JOB, OPERATION, "--reason", "looked at it")
    assert (approved["details"]["approved"], approved["details"]["reason"]) == (True, "looked at it")
    declined = result_of("decline", JOB, OPERATION, "--reason", "on second thoughts", code=2)
    assert (declined["outcome"], declined["operation"]) == ("error", OPERATION)


def test_release_push_json_contains_release_name_and_bundle_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``release push --json`` prints the release's name as the message and as a field, beside the bundle's hash."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "orders.py").write_text(
        "from streamkeeper import streaming_job\n\n\n@streaming_job(name='orders')\ndef orders(spark, params):\n"
        "    yield from ()\n"
    )
    monkeypatch.setenv("STREAMKEEPER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STREAMKEEPER_JOBS", str(tmp_path / "jobs"))
    told = result_of("release", "push", "orders")
    assert (told["command"], told["job"], told["message"]) == ("release push", "orders", "r0001")
    assert (told["details"]["release"], len(told["details"]["bundle"])) == ("r0001", 64)


def test_snapshot_restore_and_pin_json_report_each_kind_of_result(job: Registered, tmp_path: Path) -> None:
    """``snapshot restore --json`` reports a dry run, a restore into a new version and a copy to a directory; ``snapshot
    pin --json`` reports a pin and its removal.
    """
    job.take()
    series = f"{JOB}/{QUERY}"
    dry = result_of("snapshot", "restore", series, "--dry-run")
    assert (dry["outcome"], dry["job"], dry["details"]["version"]) == ("dry-run", JOB, "v0002")
    result_of("stop", JOB, "--reason", "a restore")
    done = result_of("snapshot", "restore", series)
    assert (done["outcome"], done["details"]["version"], done["details"]["snapshot"]) == ("succeeded", "v0002", "s0001")
    assert "resume from it" in done["message"]
    copied = result_of("snapshot", "restore", series, "--to", str(tmp_path / "copy"))
    assert (copied["details"]["target"], copied["details"]["files"] > 0) == (str(tmp_path / "copy"), True)
    pinned = result_of("snapshot", "pin", series, "s0001", "--reason", "before the migration")
    assert (pinned["command"], pinned["details"]["pinned"], pinned["details"]["series"]) == (
        "snapshot pin", True, series,
    )  # fmt: skip
    assert result_of("snapshot", "pin", series, "s0001", "--remove")["details"]["pinned"] is False
