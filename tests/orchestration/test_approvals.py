"""A person's answer: what is shown before it, how it is recorded in the journal, and that the first answer counts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from streamkeeper.errors import DeployFailed
from streamkeeper.model.records.journal_records import AbortRequested, About, ApprovalAnswered
from streamkeeper.model.records.step import Step
from streamkeeper.model.run_names import operation_id
from streamkeeper.operations.deploys.approval import answer_approval
from streamkeeper.operations.jobs.installation import Installation
from tests.operations.registered_job import JOB, Registered
from tests.orchestration.answering import answer_by_rest
from tests.orchestration.asking import BUNDLE, ask, ask_about_output, asked
from tests.orchestration.installed import install
from tests.orchestration.running import Instance, context_of, task_fails
from tests.orchestration.web_server import web_server

pytestmark = pytest.mark.airflow
OPERATION = operation_id("a_dag", "manual__1")
ADA = {"id": "1", "name": "ada"}


class Asking(Instance):
    """The instance of the task that asks the question."""

    id = UUID(int=7)
    dag_id, run_id, task_id, map_index = "a_dag", "manual__1", "backup.approve", -1

    def xcom_pull(self, task_ids: str, key: str = "return_value") -> Any:
        """Return nothing, as no other task has pushed a value."""
        return None


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    installed = install(tmp_path, monkeypatch)
    ask(installed, OPERATION)
    return installed


def said(option: str, *, user: dict[str, str] | None = ADA, reason: str = "looked at it") -> dict[str, Any]:
    """Return the event with which Airflow resumes the asking task."""
    from airflow.sdk.timezone import utcnow

    return {
        "chosen_options": [option],
        "params_input": {"reason": reason},
        "responded_by_user": user,
        "responded_at": utcnow(),
    }


@pytest.fixture
def rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    installed = install(tmp_path, monkeypatch)
    ask_about_output(installed, OPERATION)
    return installed


def asking(step: Step = Step.APPROVE) -> Any:
    """Return the task that asks, created anew as Airflow does it for each run."""
    from streamkeeper.orchestration.approvals import ApproveOperator, answer_form

    return ApproveOperator(task_id="approve", step=step, params=answer_form(), job=JOB, operation=OPERATION)


def answered(answer: dict[str, Any], step: Step = Step.APPROVE, *, bundle: str = BUNDLE, until: str = "") -> Any:
    """Resume the asking task with an answer."""
    return asking(step).execute_complete(context_of(Asking()), answer, operation=OPERATION, bundle=bundle, until=until)


def go_on(step: Step = Step.APPROVE) -> str:
    """Run the task that follows the asking task."""
    from streamkeeper.orchestration.approvals import AnswerOperator

    return str(AnswerOperator(task_id="answer", step=step, job=JOB, operation=OPERATION).work(context_of(Asking())))


def record(answer: dict[str, Any], step: Step = Step.APPROVE, **more: Any) -> str:
    """Resume the asking task with an answer, and run the task that follows it."""
    answered(answer, step, **more)
    return go_on(step)


def from_elsewhere(job: Registered, *, approved: bool) -> None:
    answer_approval(job.installation, JOB, OPERATION, approved=approved, by="cli:eve", reason="was faster")


def test_an_approval_is_recorded_with_who_and_why(job: Registered) -> None:
    """An approval is recorded with the user that Airflow names, their reason, the bundle, and the batches of the
    snapshots.
    """
    record(said("Approve"))
    answer = asked(job, OPERATION).approval
    assert answer is not None
    assert (answer.approved, answer.by, answer.reason, answer.bundle) == (True, "ada", "looked at it", BUNDLE)
    assert answer.batches == {"totals": "7"}
    assert "approve" in asked(job, OPERATION).done


def test_a_decline_fails_the_task_with_the_persons_reason(job: Registered) -> None:
    """A decline fails the task with the person's reason, and the operation falls back."""
    with pytest.raises(DeployFailed, match="not approved by ada: looked at it"):
        record(said("Decline"))
    assert asked(job, OPERATION).fall_back == "not approved by ada: looked at it"


def test_an_answer_without_a_user_counts_as_declined(job: Registered) -> None:
    """An answer without a user, as Airflow sends it after the deadline, counts as declined, even if it contains an
    approval.
    """
    with pytest.raises(DeployFailed, match="not approved by airflow: no answer within 60 s"):
        record(said("Approve", user=None))


@pytest.mark.parametrize("option", ["Approve", "Decline"])
def test_a_second_answer_in_airflow_changes_nothing(job: Registered, option: str) -> None:
    """An answer in Airflow after one from the command line raises no error and changes nothing."""
    from_elsewhere(job, approved=True)
    record(said(option))
    answer = asked(job, OPERATION).approval
    assert answer is not None
    assert (answer.approved, answer.by) == (True, "cli:eve")


def test_an_answer_about_a_different_bundle_is_not_recorded(job: Registered) -> None:
    """An answer about a different bundle fails the task and is not recorded."""
    with task_fails("not dddddddddddd"):
        record(said("Approve"), bundle="d" * 64)
    assert asked(job, OPERATION).approval is None


def test_an_approval_does_not_override_an_abort(job: Registered) -> None:
    """An approval does not override an abort of the operation and is not recorded."""
    abort = AbortRequested(operation=OPERATION, requested_by="eve", reason="wrong release")
    job.installation.journal(JOB, "test").append(lambda _: abort)
    with pytest.raises(DeployFailed, match="aborted: wrong release"):
        record(said("Approve"))
    assert asked(job, OPERATION).approval is None


def test_an_answer_about_a_rebuilt_output_is_recorded_as_a_review(rebuilt: Registered) -> None:
    """An answer about a rebuilt output is recorded as a review up to the compared batch, and not as an approval of the
    state.
    """
    record(said("Approve"), Step.REVIEW)
    after = asked(rebuilt, OPERATION)
    assert after.review is not None
    assert (after.review.approved, after.review.by, after.review.batches) == (True, "ada", {"totals": "3"})
    assert after.approval is None
    assert {"compare", "review"} <= after.done.keys()


def test_a_declined_review_of_a_rebuilt_output_falls_back(rebuilt: Registered) -> None:
    """A declined review fails the task and makes the operation fall back."""
    with pytest.raises(DeployFailed, match="not approved by ada: these sums are wrong"):
        record(said("Decline", reason="these sums are wrong"), Step.REVIEW)
    assert asked(rebuilt, OPERATION).fall_back == "not approved by ada: these sums are wrong"


def test_an_answer_before_the_output_comparison_is_refused(rebuilt: Registered) -> None:
    """An answer that is given before the outputs were compared is refused, because the person has not seen how they
    differ.
    """
    from streamkeeper.errors import OperationRefused

    ask_about_output(rebuilt, "op-early", compared=False)
    with pytest.raises(OperationRefused, match="does not wait for an approval"):
        answer_approval(rebuilt.installation, JOB, "op-early", approved=True, by="cli:eve", reason="in a hurry")


def test_a_repeated_answer_about_state_does_not_approve_the_output(rebuilt: Registered) -> None:
    """A repeated answer about the state is not accepted for the output: an answer about the output must name it."""
    from streamkeeper.errors import OperationRefused

    about_state = ApprovalAnswered(
        operation=OPERATION, approved=True, by="cli:ada", reason="fine", bundle=BUNDLE, batches={}
    )
    rebuilt.record(about_state)
    with pytest.raises(
        OperationRefused, match="already has an answer about the state, and now needs one about the rebuilt output"
    ):
        answer_approval(rebuilt.installation, JOB, OPERATION, approved=True, by="cli:bob", reason="fine")
    with pytest.raises(OperationRefused, match="needs an answer about the rebuilt output, not about the state"):
        answer_approval(
            rebuilt.installation, JOB, OPERATION, approved=True, by="cli:bob", reason="fine", about=About.STATE
        )
    assert asked(rebuilt, OPERATION).review is None
    answer_approval(
        rebuilt.installation, JOB, OPERATION, approved=True, by="cli:bob", reason="seen", about=About.OUTPUT
    )
    assert asked(rebuilt, OPERATION).review.by == "cli:bob"


@pytest.fixture
def asked_of(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The list of the requests that Airflow is given; no Airflow receives them."""
    from streamkeeper.orchestration import approvals

    found: list[dict[str, Any]] = []
    monkeypatch.setattr(approvals, "upsert_hitl_detail", lambda **given: found.append(given))
    return found


def task_deferred() -> type[BaseException]:
    """Return the exception that a waiting task raises."""
    from airflow.sdk.exceptions import TaskDeferred

    return TaskDeferred


def site_of(job: Registered) -> Installation:
    """Return the installation as the environment describes it now."""
    return Installation.from_environment(os.environ, read_only=True)


def ask_them(step: Step = Step.APPROVE) -> Any:
    """Let the task ask and wait, and return its deferral."""
    from airflow.sdk import DAG

    context = context_of(Asking())
    context["dag"] = DAG("a_dag", schedule=None)
    with pytest.raises(task_deferred()) as deferred:
        asking(step).work(context)
    return deferred.value


def test_airflow_rejects_answers_of_users_who_are_not_listed(
    job: Registered, asked_of: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A real Airflow rejects an answer by REST from a user who is not listed, and accepts one from a listed user id.
    Negative control: without a list it accepts the first answer.
    """
    ask_them()
    monkeypatch.setenv("STREAMKEEPER_APPROVERS", "bob,eve=3")
    ask_them()
    assert "May answer: bob, eve." in asked_of[1]["body"]
    without, listed = answer_by_rest(tmp_path / "airflow", asked_of, ["mallory", "eve", "3"])
    assert without[0] == [200, "mallory"]
    assert listed == [[403, ""], [403, ""], [200, "3"]]


@pytest.mark.parametrize("approvers", ["ada", "cli:root", "ada,cli:ada"])
def test_an_empty_list_of_approvers_does_not_allow_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_of: list[dict[str, Any]], approvers: str
) -> None:
    """If no approver remains in the list, Airflow still receives a list that is not empty, which it would treat as
    everybody, and no answer is recorded.
    """
    installed = install(tmp_path, monkeypatch)
    ask(installed, OPERATION, requested_by="ada")
    monkeypatch.setenv("STREAMKEEPER_APPROVERS", approvers)
    monkeypatch.setenv("STREAMKEEPER_FOUR_EYES", "yes")
    ask_them()
    assert asked_of[0]["assigned_users"]
    for name in ("ada", "root", "mallory", "cli:root", "airflow"):
        with pytest.raises(task_deferred()):
            answered(said("Approve", user={"id": name, "name": name}))
    assert asked(installed, OPERATION).approval is None


@pytest.mark.parametrize("option", ["Approve", "Decline"])
def test_an_answer_of_an_unauthorized_user_leaves_the_question_open(
    job: Registered, asked_of: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """An answer from a user who may not answer is not recorded even if Airflow accepts it, and the question stays open
    with the same deadline.
    """
    monkeypatch.setenv("STREAMKEEPER_APPROVERS", "ada=1")
    until = ask_them().kwargs["until"]
    for user in ({"id": "9", "name": "mallory"}, {"id": "9", "name": "ada"}, {"id": "1", "name": "Ada"}):
        with pytest.raises(task_deferred()) as again:
            answered(said(option, user=user), until=until)
        assert again.value.kwargs["until"] == until
    assert asked(job, OPERATION).approval is None
    assert len(asked_of) == 4
    answered(said(option), until=until)
    assert asked(job, OPERATION).approval.by == "ada"


def test_an_airflow_user_named_like_a_command_line_approver_may_not_answer(
    job: Registered, asked_of: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An Airflow user whose name equals that of a command-line approver may not answer. Negative control: an answer
    from the command line counts.
    """
    monkeypatch.setenv("STREAMKEEPER_APPROVERS", "cli:eve")
    with pytest.raises(task_deferred()):
        answered(said("Approve", user={"id": "cli:eve", "name": "cli:eve"}))
    assert asked(job, OPERATION).approval is None
    answer_approval(site_of(job), JOB, OPERATION, approved=True, by="cli:eve", reason="seen")


def test_an_answer_forged_in_an_xcom_is_ignored(job: Registered) -> None:
    """An answer that was forged in an XCom is ignored, and the question counts as declined."""
    from streamkeeper.orchestration.approvals import AnswerOperator

    class Forged(Asking):
        def xcom_pull(self, task_ids: str, key: str = "return_value") -> Any:
            return {"return_value": said("Approve"), "bundle": BUNDLE}.get(key)

    with pytest.raises(DeployFailed, match="not approved by airflow: no answer"):
        AnswerOperator(task_id="answer", step=Step.APPROVE, job=JOB, operation=OPERATION).work(context_of(Forged()))
    assert not asked(job, OPERATION).approval.approved


@pytest.mark.parametrize("option", ["Approve", "Decline"])
def test_a_task_cleared_after_an_answer_returns_the_recorded_answer(
    job: Registered, asked_of: list[dict[str, Any]], option: str
) -> None:
    """A task that is cleared after an answer asks no question and returns the recorded answer, which a different user
    cannot change.
    """
    answered(said(option))
    again = asking().work(context_of(Asking()))
    assert (again["chosen_options"], asked_of) == ([option], [])
    other = "Decline" if option == "Approve" else "Approve"
    answered(said(other, user={"id": "2", "name": "bob"}))
    assert (asked(job, OPERATION).approval.by, asked(job, OPERATION).approval.approved) == ("ada", option == "Approve")


def test_a_task_cleared_before_an_answer_repeats_the_question(job: Registered, asked_of: list[dict[str, Any]]) -> None:
    """Negative control: a task that is cleared before an answer asks the question a second time."""
    ask_them()
    ask_them()
    assert len(asked_of) == 2


def test_a_notifier_receives_the_question_with_deadline_and_link(
    job: Registered, asked_of: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notifier receives, over a real socket, the question, the deadline, the approvers, the cost of a rollback, the
    differences and the link to the answer.
    """
    monkeypatch.setenv("STREAMKEEPER_APPROVERS", "bob")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example")
    with web_server() as (url, posted, _):
        hook = {"notifier": "streamkeeper.orchestration.webhook.WebhookNotifier", "kwargs": {"url": url}}
        monkeypatch.setenv("STREAMKEEPER_NOTIFIERS", json.dumps(hook))
        deferred = ask_them()
        (told,) = posted
    until = deferred.kwargs["until"]
    assert told["subject"] == "[approval] Let r0002 of sales continue with the state of r0001?"
    for words in (
        f"Without an answer by {until[:10]} {until[11:16]} UTC, the question counts as declined; ",
        "; r0001 stays the current release, and no driver is running now.",
        "May answer: bob.",
        "faster",
        "r0001 returns to its last batch, from a snapshot",
        "Code differences:",
        "Answer: http://airflow.example/dags/a_dag/runs/manual__1/tasks/backup.approve/required_actions",
        f"streamkeeper question {JOB} {OPERATION}",
    ):
        assert words in told["text"]
    assert (told["rule"], told["runbook"]) == (
        "approval-waiting",
        "docs/operations/runbook.md#a-deploy-waits-for-an-approval",
    )


def test_a_failing_notifier_does_not_prevent_the_question(
    job: Registered, asked_of: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing notifier, or an unreadable setting of notifiers, does not prevent the question."""
    with web_server() as (url, posted, answers):
        answers.append(500)
        hook = {"notifier": "streamkeeper.orchestration.webhook.WebhookNotifier", "kwargs": {"url": url}}
        for notifiers in (json.dumps(hook), "[", '"nowhere.at.All"'):
            monkeypatch.setenv("STREAMKEEPER_NOTIFIERS", notifiers)
            ask_them()
        assert posted == []
    assert len(asked_of) == 3


def test_an_answer_about_state_is_refused_if_the_risk_is_accepted(job: Registered) -> None:
    """An answer about the state is refused if the request accepts the risk, because it would have no effect."""
    from streamkeeper.errors import OperationRefused

    ask(job, "op-bold", accept_risk=True)
    with pytest.raises(OperationRefused, match="does not wait for an approval"):
        answer_approval(job.installation, JOB, "op-bold", approved=False, by="cli:eve", reason="stop")


def test_the_question_about_an_output_shows_the_rows_that_differ(rebuilt: Registered) -> None:
    """The question about an output shows the reason, the counts and a sample of the differing rows; a bar in a value
    does not break the table.
    """
    from streamkeeper.operations.deploys.questions import render_question, subject_of

    state, operation = rebuilt.installation.journal(JOB, "test").state(), asked(rebuilt, OPERATION)
    assert subject_of(state, operation) == "Replace the output of r0001 of sales with the rebuilt output of r0002?"
    text = render_question(rebuilt.installation, state, operation)
    for words in (
        "**r0002** will replace **r0001**, requested by an unknown user: right sums",
        "- query totals: the outputs differ: 4 of 4 common rows differ (amount 4)",
        "4 rows and 4: 0 only old, 0 only new, 4 differ (amount 4)",
        "| customer='a\\|b' | amount | 1 | 2 |",
        "the input read since then is read and written again",
        f"streamkeeper approve {JOB} {OPERATION}",
    ):
        assert words in text


def test_the_question_about_state_shows_reason_finding_cost_and_command(job: Registered) -> None:
    """The question about the state shows the reason, the finding, the snapshot, the cost of a rollback and the command
    to answer with.
    """
    from streamkeeper.operations.deploys.questions import render_question

    text = render_question(job.installation, job.installation.journal(JOB, "test").state(), asked(job, OPERATION))
    for words in (
        "**r0002** will replace **r0001**",
        "faster",
        "`code-in-state-changed`",
        "snapshot `s0001`",
        "r0001 returns to its last batch, from a snapshot; the input read since then is read and written again",
        f"streamkeeper approve {JOB} {OPERATION} --about state --reason",
    ):
        assert words in text


def test_the_trigger_finds_a_decision_only_once_the_journal_has_one(job: Registered) -> None:
    """The waiting trigger finds no answer in the journal while the question is open, and the decision once it is
    recorded.
    """
    from streamkeeper.orchestration.answer_trigger import answer_in

    assert answer_in(asked(job, OPERATION), Step.APPROVE) is None
    from_elsewhere(job, approved=True)
    answer = answer_in(asked(job, OPERATION), Step.APPROVE)
    assert answer is not None
    assert (answer["chosen_options"], answer["responded_by_user"]) == (["Approve"], None)


def test_a_deserialized_trigger_waits_for_the_same_question(job: Registered) -> None:
    """A trigger that is recreated from its serialized form waits for the same question."""
    from airflow.sdk import ParamsDict

    from streamkeeper.orchestration.answer_trigger import AnswerTrigger
    from streamkeeper.orchestration.approvals import answer_form

    params = ParamsDict(answer_form())
    given: dict[str, Any] = {
        "job": JOB,
        "operation": OPERATION,
        "step": "REVIEW",
        "ti_id": UUID(int=7),
        "options": ["Approve", "Decline"],
        "defaults": ["Decline"],
        "params": {"reason": params.get_param("reason").serialize()},
        "multiple": False,
        "timeout_datetime": None,
    }
    where, made_from = AnswerTrigger(**given).serialize()
    assert where == "streamkeeper.orchestration.answer_trigger.AnswerTrigger"
    again = AnswerTrigger(**made_from)
    assert (again.job, again.operation, again.step, again.ti_id) == (JOB, OPERATION, "REVIEW", UUID(int=7))
