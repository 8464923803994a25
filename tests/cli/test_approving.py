"""``approve``, ``decline`` and ``rollback``, and how a deploy requests an answer, as a person types and reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from streamkeeper.cli import deploying
from streamkeeper.cli.caller import caller
from streamkeeper.cli.command_results import CommandResult, Report
from streamkeeper.cli.main import app
from streamkeeper.model.records.journal_records import OperationFinished, Outcome
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.request import DeployRequest, Handover, Rollback, Strategy
from streamkeeper.operations.deploys.deploy import Deploy, OnOpen, Progress
from tests.operations.registered_job import JOB, Registered
from tests.orchestration.asking import BUNDLE, ask, ask_about_output, asked
from tests.orchestration.installed import install

OPERATION = "op-asks"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    monkeypatch.setenv("COLUMNS", "300")
    return install(tmp_path, monkeypatch)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[DeployRequest]:
    """The requests that the commands make, collected instead of carried out."""
    found: list[DeployRequest] = []

    def keep(_: str, request: DeployRequest, on_open: OnOpen, **__: object) -> None:
        assert on_open is OnOpen.REFUSE
        found.append(request)

    monkeypatch.setattr(deploying, "_carry_out", keep)
    return found


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize(("verb", "approved"), [("approve", True), ("decline", False)])
def test_an_answer_is_recorded_with_who_and_why(job: Registered, verb: str, approved: bool) -> None:
    """An answer is recorded with the person who typed it and the reason, and repeating the same answer succeeds."""
    ask(job, OPERATION)
    for _ in range(2):
        result = run(verb, JOB, OPERATION, "--reason", "looked at it")
        assert result.exit_code == 0, result.stderr
        assert f"operation {OPERATION} of job {JOB}: {verb}d by cli:" in result.stdout
    answer = asked(job, OPERATION).approval
    assert answer is not None
    assert (answer.approved, answer.reason) == (approved, "looked at it")
    assert answer.by.startswith("cli:")


def test_an_answer_by_a_person_who_is_not_an_approver_is_refused(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer by a person who is not an approver is refused in one line, whatever name they set and however often
    they retry; negative control: a list that contains them.
    """
    ask(job, OPERATION)
    monkeypatch.setenv("STREAMKEEPER_APPROVERS", "cli:somebody_else")
    for variable in ("LOGNAME", "USER"):
        monkeypatch.setenv(variable, "somebody_else")
    for verb in ("approve", "decline", "approve"):
        result = run(verb, JOB, OPERATION, "--reason", "in a hurry")
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        told = f"error: the answer to operation {OPERATION} of job {JOB} does not count: {caller()} is not among"
        assert result.stderr.startswith(told)
    assert asked(job, OPERATION).approval is None
    monkeypatch.setenv("STREAMKEEPER_APPROVERS", f"cli:somebody_else,{caller()}")
    assert run("approve", JOB, OPERATION, "--reason", "looked at it").exit_code == 0


def test_an_answer_by_the_requester_is_refused_with_four_eyes(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """With four eyes required, the requester's own answer is refused, even if they requested in Airflow under the same
    name; negative control: without the setting it is accepted.
    """
    ask(job, OPERATION, requested_by=caller().removeprefix("cli:").upper())
    monkeypatch.setenv("STREAMKEEPER_FOUR_EYES", "yes")
    result = run("approve", JOB, OPERATION, "--reason", "my job")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "requested it, so another person must answer" in result.stderr
    monkeypatch.delenv("STREAMKEEPER_FOUR_EYES")
    assert run("approve", JOB, OPERATION, "--reason", "my job").exit_code == 0


@pytest.mark.parametrize("given", [" ", ",", "*"])
def test_an_empty_or_malformed_approver_list_accepts_no_answer(
    job: Registered, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """An empty or malformed list of approvers is reported in one line, and no answer is accepted."""
    ask(job, OPERATION)
    monkeypatch.setenv("STREAMKEEPER_APPROVERS", given)
    result = run("approve", JOB, OPERATION, "--reason", "free for all")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: STREAMKEEPER_APPROVERS")
    assert asked(job, OPERATION).approval is None


def test_a_question_shows_its_approvers_and_time_limit(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question shows who may answer it, and the time limit for an answer."""
    ask(job, OPERATION, requested_by="ada")
    monkeypatch.setenv("STREAMKEEPER_APPROVERS", "ada,bob")
    monkeypatch.setenv("STREAMKEEPER_FOUR_EYES", "yes")
    shown = run("question", JOB, OPERATION).stdout
    assert "May answer: bob." in shown
    assert "Without an answer within 60 s of the question, the question counts as declined" in shown


def test_a_second_and_contrary_answer_is_one_clear_line(job: Registered) -> None:
    """A second, contrary answer is refused in one line that names who answered first, and the first one counts."""
    ask(job, OPERATION)
    run("approve", JOB, OPERATION, "--reason", "looked at it")
    result = run("decline", JOB, OPERATION, "--reason", "on second thoughts")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: operation {OPERATION} was already approved by cli:")
    answer = asked(job, OPERATION).approval
    assert answer is not None
    assert answer.approved


def test_an_answer_to_an_operation_without_an_open_question_is_refused(job: Registered) -> None:
    """An answer is refused if the operation is not waiting for it yet, is unknown, or is about a different bundle."""
    ask(job, OPERATION, backup=False)
    early = run("approve", JOB, OPERATION, "--reason", "in a hurry")
    assert f"error: operation {OPERATION} of job {JOB} does not wait for an approval" in early.stderr
    unknown = run("approve", JOB, "op-unknown", "--reason", "in a hurry")
    assert "does not wait for an approval" in unknown.stderr
    over = OperationFinished(operation=OPERATION, outcome=Outcome.REFUSED, sentence="over")
    job.installation.journal(JOB, "test").append(lambda _: over)
    ask(job, "op-again")
    other = run("approve", JOB, "op-again", "--reason", "that one", "--bundle", "d" * 64)
    assert f"is about the bundle {BUNDLE[:12]}, not dddddddddddd" in other.stderr
    assert {each.exit_code for each in (early, unknown, other)} == {2}
    assert asked(job, OPERATION).approval is asked(job, "op-again").approval is None


def test_a_deploy_that_waits_for_approval_prints_the_answer_command_once(
    job: Registered, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A deploy that waits for an approval prints the command to answer once, however often it checks."""
    ask(job, OPERATION)
    real, looks = Deploy.advance, 0

    def advance(self: Deploy, until: Step) -> Progress:
        nonlocal looks
        looks += 1
        if looks == 4:
            raise KeyboardInterrupt
        return real(self, until)

    monkeypatch.setattr(Deploy, "advance", advance)
    report = Report(CommandResult(command="deploy", job=JOB), as_json=False)
    with pytest.raises(typer.Exit):
        deploying.follow_operation(report, Deploy.load(job.installation, JOB, OPERATION))
    line = f"Answer with `streamkeeper approve {JOB} {OPERATION} --about state --reason …`, or decline"
    assert capsys.readouterr().out.count(line) == 1


def test_a_question_about_an_output_shows_its_rows_and_records_the_answer(job: Registered) -> None:
    """A question about an output shows the differing rows, and its answer is recorded for the output and not for the
    state.
    """
    ask_about_output(job, OPERATION)
    read = run("question", JOB, OPERATION)
    assert read.exit_code == 0, read.stderr
    assert "Replace the output of r0001 of sales with the rebuilt output of r0002?" in read.stdout
    assert "query totals: the outputs differ: 4 of 4 common rows differ (amount 4)" in read.stdout
    assert "customer='a|b'" in read.stdout
    assert run("approve", JOB, OPERATION, "--reason", "the tax is in it now").exit_code == 0
    after = asked(job, OPERATION)
    assert after.review is not None
    assert (after.review.approved, after.approval) == (True, None)


def test_an_operation_without_compared_outputs_has_no_open_question(job: Registered) -> None:
    """An operation that has not compared outputs yet and an unknown operation have no open question."""
    ask_about_output(job, OPERATION, compared=False)
    for operation in (OPERATION, "op-unknown"):
        result = run("question", JOB, operation)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"error: operation {operation} of job {JOB} has no open question" in result.stderr


def test_every_option_reaches_the_request(requests: list[DeployRequest]) -> None:
    """Every option of ``deploy`` is passed to the request."""
    words = """deploy orders --release r0007 --strategy rebuild --handover cold --reason because --dry-run
        --accept-state-loss --accept-risk --no-compare --most-missing 0.25 --most-differing 0.5
        --expect-different total --expect-different totals.largest --drain-s 5
        --standby-s 6 --first-commit-s 7 --approve-s 8 --catch-up-s 9 --probation-batches 0 --probation-s 10"""
    assert run(*words.split()).exit_code == 0
    (request,) = requests
    assert request == DeployRequest(
        job="orders",
        release="r0007",
        strategy=Strategy.REBUILD,
        handover=Handover.COLD,
        reason="because",
        dry_run=True,
        requested_by=request.requested_by,
        accept_state_loss=True,
        accept_risk=True,
        compare=False,
        most_missing=0.25,
        most_differing=0.5,
        expect_different=("total", "totals.largest"),
        drain_s=5,
        standby_s=6,
        first_commit_s=7,
        approve_s=8,
        catch_up_s=9,
        probation_batches=0,
        probation_s=10,
    )


def test_rollback_requests_an_earlier_release_and_requires_a_reason(requests: list[DeployRequest]) -> None:
    """``rollback`` requests the given release or the one before the current, and requires a reason."""
    assert run("rollback", "orders", "--reason", "wrong sums").exit_code == 0
    assert (
        run(
            "rollback", "orders", "--release", "r0003", "--reason", "wrong sums", "--accept-risk", "--accept-loss"
        ).exit_code
        == 0
    )
    assert run("rollback", "orders").exit_code == 2
    assert [
        (isinstance(each.kind, Rollback), each.release, each.accept_risk and each.accept_loss) for each in requests
    ] == [
        (True, None, False),
        (True, "r0003", True),
    ]


def test_rolling_back_a_job_that_ran_only_one_release_is_refused(job: Registered) -> None:
    """Rolling back a job that only ever ran one release is refused in one line, before anything is recorded."""
    result = run("rollback", JOB, "--reason", "wrong sums")
    assert result.exit_code == 2
    assert f"job {JOB}: no release was current before r0001" in result.stderr
    operations = job.installation.journal(JOB, "test").state().operations.values()
    assert not [each for each in operations if isinstance(each.request.kind, Rollback)]
