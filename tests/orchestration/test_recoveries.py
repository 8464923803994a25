"""Tests the tasks of a recovery that run before its deploy: what they report, who has to approve, and whose approval is
recorded.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.checkpoint_files import QUERY_ID
from streamkeeper.errors import InvalidInput, OperationRefused
from streamkeeper.model.records.journal_records import StartOffsetsKnown
from streamkeeper.model.requests.diagnosis import RecoveryAction
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.run_names import operation_id
from streamkeeper.operations.fleet.watching import WatchPass, run_pass
from streamkeeper.operations.jobs.overview import job_overview
from streamkeeper.operations.jobs.overview_facts import overview_facts
from streamkeeper.operations.recovery.recovering import RecoveryRequest
from tests.checkpoints.damaging import lose
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.orchestration.installed import install
from tests.orchestration.running import Instance, context_of, task_fails

pytestmark = pytest.mark.airflow
OPERATION = operation_id("a_dag", "manual__1")
ADA = {"id": "1", "name": "ada"}


class Run(Instance):
    """The task instance of a run, in which one task can read what another task pushed."""

    dag_id, run_id, task_id, map_index = "a_dag", "manual__1", "accept", -1

    def __init__(self) -> None:
        super().__init__()
        self.left: dict[tuple[str, str], Any] = {}

    def xcom_pull(self, task_ids: str, key: str = "return_value") -> Any:
        """Return the value that another task pushed."""
        return self.left.get((task_ids, key), self.pushed.get(key))


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """A job whose newest snapshot is one batch behind and whose checkpoint is missing."""
    installed = install(tmp_path, monkeypatch)
    installed.record(StartOffsetsKnown(query=QUERY, version="v0001", offsets=("null",), query_id=QUERY_ID))
    installed.take()
    installed.commit(8)
    installed.report(committed=8)
    installed.write_table(8)
    lose(installed.directory, "missing")
    return installed


def context(run: Run, **form: Any) -> Any:
    return context_of(run, **{"job": JOB, "action": "restore", "query": None, "approve_s": 60, **form})


def diagnose(run: Run, **form: Any) -> str:
    from streamkeeper.orchestration.recoveries import DiagnoseOperator

    return str(DiagnoseOperator(task_id="diagnose").work(context(run, **form)))


def decide(run: Run, **form: Any) -> str:
    from streamkeeper.orchestration.recoveries import DecideOperator

    operator = DecideOperator(task_id="decide", diagnosed="diagnose", ask="accept", go_on="bundle", end="finish")
    return operator.choose_branch(context(run, **form))


def start(run: Run, **form: Any) -> str:
    from streamkeeper.orchestration.recoveries import RecoverOperator

    operator = RecoverOperator(task_id="bundle", diagnosed="diagnose")
    return str(operator.work(context(run, **form)))


def said(run: Run, option: str, user: dict[str, str] | None = ADA) -> None:
    """Resume the waiting approval task, as Airflow does, with a person's answer or with the default answer."""
    from airflow.sdk.timezone import utcnow

    from streamkeeper.orchestration.approvals import answer_form
    from streamkeeper.orchestration.recoveries import AcceptOperator

    event = {
        "chosen_options": [option], "params_input": {"reason": "kept for a year"}, "responded_by_user": user,
        "responded_at": utcnow(),
    }  # fmt: skip
    AcceptOperator(task_id="accept", diagnosed="diagnose", params=answer_form()).execute_complete(context(run), event)


def test_a_diagnosis_reports_its_findings_without_opening_an_operation(job: Registered) -> None:
    """With the action ``diagnose``, the run pushes the findings as its report and goes straight to its last task,
    without approval and without opening an operation.
    """
    run = Run()
    assert "is missing" in diagnose(run, action="diagnose")
    assert "checkpoint-lost" in run.pushed["report"]
    assert decide(run, action="diagnose") == "finish"
    assert job.installation.journal(JOB, "test").state().open_operation is None


def test_a_dry_run_reports_what_its_action_would_lose(job: Registered) -> None:
    """A dry run reports what restoring the named snapshot would lose, without approval and without opening an
    operation; a dry run of an impossible action is refused.
    """
    run = Run()
    diagnose(run, dry_run=True, query=QUERY, snapshot="s0001")
    assert "LOSES" in run.pushed["report"]
    assert decide(run, dry_run=True) == "finish"
    assert decide(run) == "accept"
    assert job.installation.journal(JOB, "test").state().open_operation is None
    with pytest.raises(OperationRefused, match="restart of sales is not possible"):
        diagnose(Run(), action="restart", dry_run=True)


def test_a_recovery_with_loss_needs_approval_and_records_the_approver(job: Registered) -> None:
    """A recovery that loses data needs approval, and its operation records the approver whom Airflow names, their
    reason, and the effects that they were shown.
    """
    run = Run()
    diagnose(run)
    assert decide(run) == "accept"
    said(run, "Approve")
    start(run)
    request = job.installation.journal(JOB, "test").state().operations[OPERATION].request
    assert request.recovery is not None
    assert (request.recovery.accepted_by, request.reason) == ("ada", "kept for a year")
    assert request.recovery.announced == tuple(run.pushed["announced"])
    assert run.pushed["operation"] == OPERATION


@pytest.mark.parametrize(
    ("option", "user", "told"),
    [("Decline", ADA, "ada: kept for a year"), ("Approve", None, "no answer in time"), ("Decline", None, "no answer")],
)
def test_a_declined_or_expired_approval_opens_no_operation(
    job: Registered, option: str, user: dict[str, str] | None, told: str
) -> None:
    """A declined approval, an expired deadline and an approval without a user open no operation."""
    run = Run()
    diagnose(run)
    with task_fails(f"not accepted: {told}"):
        said(run, option, user)
    with pytest.raises(OperationRefused, match="a person must accept the effects of"):
        start(run)
    assert OPERATION not in job.installation.journal(JOB, "test").state().operations


def test_a_recovery_that_bypasses_the_approval_task_is_refused(job: Registered) -> None:
    """Negative control of the branch: starting the recovery without passing the approval task is refused by the
    operation itself.
    """
    run = Run()
    diagnose(run)
    with pytest.raises(OperationRefused, match="a person must accept the effects of"):
        start(run)


def test_an_approval_forged_in_another_tasks_xcom_is_not_accepted(job: Registered) -> None:
    """An approval forged as another task's XCom value is not accepted, even when the XCom also marks the approval as
    unnecessary.
    """
    run = Run()
    diagnose(run)
    forged = {"chosen_options": ["Approve"], "params_input": {"reason": "x"}, "responded_by_user": ADA}
    run.left["accept", "return_value"] = forged
    run.left["diagnose", "asks"] = False
    assert decide(run) == "bundle"
    with pytest.raises(OperationRefused, match="a person must accept the effects of"):
        start(run)
    assert OPERATION not in job.installation.journal(JOB, "test").state().operations


def test_only_a_listed_approver_other_than_the_requester_may_accept_a_loss(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only an approver with the listed name and id may accept a loss, and not the person who requested the recovery.
    Negative control: the remaining approver's answer opens the operation.
    """
    monkeypatch.setenv("STREAMKEEPER_APPROVERS", "ada=1,bob=2")
    monkeypatch.setenv("STREAMKEEPER_FOUR_EYES", "yes")
    run = Run()
    diagnose(run)
    for user, why in (
        ({"id": "9", "name": "mallory"}, "mallory is not among the approvers"),
        ({"id": "9", "name": "bob"}, "bob is not among the approvers"),
        (ADA, "ada requested it"),
    ):
        with task_fails(f"no authorized person has accepted this: {why}"):
            said(run, "Approve", user)
        assert OPERATION not in job.installation.journal(JOB, "test").state().operations
    said(run, "Approve", {"id": "2", "name": "bob"})
    recover = job.installation.journal(JOB, "test").state().operations[OPERATION].request.recovery
    assert recover is not None
    assert recover.accepted_by == "bob"


def test_the_approval_request_is_assigned_only_to_eligible_approvers(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's approval request is assigned only to eligible approvers, excluding the requester, and its text names
    them next to the deadline, with markup escaped.
    """
    from airflow.providers.standard.operators import hitl
    from airflow.sdk.exceptions import TaskAwaitingInput

    from streamkeeper.orchestration.approvals import answer_form
    from streamkeeper.orchestration.recoveries import AcceptOperator

    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **given: asked.append(given))
    monkeypatch.setenv("STREAMKEEPER_APPROVERS", "ada,bob=2")
    monkeypatch.setenv("STREAMKEEPER_FOUR_EYES", "yes")
    run = Run()
    diagnose(run)
    run.pushed["announced"] = ["<lambda>"]
    given = {**context(run), "task_instance": SimpleNamespace(id=7)}
    with pytest.raises(TaskAwaitingInput):
        AcceptOperator(task_id="accept", diagnosed="diagnose", params=answer_form()).work(given)
    (question,) = asked
    assert question["assigned_users"] == [{"id": "2", "name": "bob"}]
    assert r"- \<lambda>" in question["body"]
    assert "the question counts as declined. May answer: bob." in question["body"]


def test_the_watch_and_status_report_a_recovery_that_awaits_approval(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch and ``status`` report a recovery that waits for approval, until it is answered; the watch stops at the
    deadline. Negative control: before the task requests approval, neither reports it.
    """
    from airflow.providers.standard.operators import hitl
    from airflow.sdk.exceptions import TaskAwaitingInput

    from streamkeeper.orchestration.approvals import answer_form
    from streamkeeper.orchestration.recoveries import AcceptOperator

    def told(after_s: float) -> tuple[bool, bool]:
        now = time.time() + after_s
        row = run_pass(WatchPass(installation=job.installation, acts=False, now=lambda: now)).index.rows[0]
        facts = overview_facts(job_overview(job.installation, JOB), beat="")
        return (
            any(symptom.rule == "recovery-waiting" for symptom in row.symptoms),
            any(fact.name == "waits for a person" for fact in facts),
        )

    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **given: None)
    run = Run()
    diagnose(run)
    assert told(70) == (False, False)
    given = {**context(run, approve_s=600), "task_instance": SimpleNamespace(id=7)}
    with pytest.raises(TaskAwaitingInput):
        AcceptOperator(task_id="accept", diagnosed="diagnose", params=answer_form()).work(given)
    assert told(70) == (True, True)
    assert told(601)[0] is False
    with task_fails("not accepted: ada: kept for a year"):
        said(run, "Decline")
    assert told(70) == (False, False)


def test_an_approval_of_altered_effects_is_refused(job: Registered) -> None:
    """An approval counts for the effects that were announced: if the announcement was altered to promise less loss, the
    approval is refused and no operation is opened.
    """
    run = Run()
    diagnose(run)
    run.left["diagnose", "announced"] = ["query totals: loses nothing"]
    with task_fails("the effects have changed since they were accepted"):
        said(run, "Approve")
    assert OPERATION not in job.installation.journal(JOB, "test").state().operations


def test_a_restore_without_loss_needs_no_approval(job: Registered) -> None:
    """A restore from a snapshot that contains every committed batch opens its operation without approval."""
    run = Run()
    job.report(committed=7)
    job.write_table(7)
    diagnose(run)
    assert decide(run) == "bundle"
    start(run)
    assert OPERATION in job.installation.journal(JOB, "test").state().operations


def test_a_task_that_runs_again_finds_its_operation(job: Registered) -> None:
    """Rerunning the tasks of a recovery that has already started finds the existing operation and appends nothing to
    the journal.
    """
    run = Run()
    diagnose(run)
    said(run, "Approve")
    start(run)
    number = job.installation.journal(JOB, "test").state().number
    assert "started already" in diagnose(run)
    start(run)
    assert job.installation.journal(JOB, "test").state().number == number


def test_an_action_that_is_not_possible_fails_with_the_reason(job: Registered) -> None:
    """An impossible action, and a snapshot named without its query, fail the diagnosis with a reason before approval is
    requested.
    """
    with pytest.raises(OperationRefused, match="restart of sales is not possible"):
        diagnose(Run(), action="restart")
    with pytest.raises(InvalidInput, match="a snapshot is named without its query"):
        diagnose(Run(), snapshot="s0001")


def test_every_field_of_the_form_reaches_the_recovery_request(tmp_path: Path) -> None:
    """Every field of the form reaches the recovery request, and the form's defaults equal those of the command line."""
    from airflow.sdk import ParamsDict

    from streamkeeper.orchestration.form import recover_form
    from streamkeeper.orchestration.recoveries import read_asked

    def fill(**values: Any) -> RecoveryRequest:
        form = ParamsDict(recover_form(tmp_path))
        form.update(values)
        return read_asked(dict(form.validate()), requested_by="ada")

    usual = DeployRequest(job="sales", requested_by="ada")
    assert fill(job="sales") == RecoveryRequest(request=usual, action=RecoveryAction.DIAGNOSE)
    deadlines = {"drain_s": 1, "standby_s": 2, "first_commit_s": 3, "approve_s": 4, "catch_up_s": 5, "probation_s": 6}
    filled = fill(
        job="sales",
        action="restore",
        query="totals",
        snapshot="s0007",
        reason="because",
        probation_batches=7,
        **deadlines,
    )
    request = DeployRequest(job="sales", reason="because", requested_by="ada", probation_batches=7, **deadlines)
    assert filled == RecoveryRequest(
        request=request, action=RecoveryAction.RESTORE, queries=("totals",), snapshots={"totals": "s0007"}
    )
