"""A person's answer: what is shown before it, how it comes into the journal, and that the first one counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamkeeper.errors import DeployFailed
from streamkeeper.lifecycle.steps import Step
from streamkeeper.model.journal import AbortRequested, About, ApprovalAnswered
from streamkeeper.operations.approval import answer_approval
from streamkeeper.orchestration.run_names import operation_id
from tests.operations.registered_job import JOB, Registered
from tests.orchestration.asking import BUNDLE, ask, ask_about_output, asked
from tests.orchestration.installed import install
from tests.orchestration.running import Instance, context_of

pytestmark = pytest.mark.airflow
OPERATION = operation_id("a_dag", "manual__1")
ADA = {"id": "1", "name": "ada"}


class Answered(Instance):
    """The task that records; ``answer``: what the one before it has returned."""

    def __init__(self, answer: dict[str, Any], bundle: str = BUNDLE) -> None:
        super().__init__()
        self.found = {
            (task, key): value
            for task in ("backup.approve", "dual_run.review")
            for key, value in (("return_value", answer), ("bundle", bundle))
        }

    def xcom_pull(self, task_ids: str, key: str = "return_value") -> Any:
        """What another task left."""
        return self.found.get((task_ids, key))


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    installed = install(tmp_path, monkeypatch)
    ask(installed, OPERATION)
    return installed


def said(option: str, *, user: dict[str, str] | None = ADA, reason: str = "looked at it") -> dict[str, Any]:
    return {"chosen_options": [option], "params_input": {"reason": reason}, "responded_by_user": user}


@pytest.fixture
def rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    installed = install(tmp_path, monkeypatch)
    ask_about_output(installed, OPERATION)
    return installed


def record(answer: dict[str, Any], step: Step = Step.APPROVE, **more: Any) -> str:
    from streamkeeper.orchestration.approvals import AnswerOperator

    task = "backup.approve" if step is Step.APPROVE else "dual_run.review"
    operator = AnswerOperator(task_id="answer", step=step, asked=task)
    return str(operator.work(context_of(Answered(answer, **more), job=JOB)))


def from_elsewhere(job: Registered, *, approved: bool) -> None:
    answer_approval(job.site, JOB, OPERATION, approved=approved, by="cli:eve", reason="was faster")


def test_an_approval_is_recorded_with_who_and_why(job: Registered) -> None:
    """The person that Airflow names, and their own words; the batches it is about come from the snapshots."""
    record(said("Approve"))
    answer = asked(job, OPERATION).approval
    assert answer is not None
    assert (answer.approved, answer.by, answer.reason, answer.bundle) == (True, "ada", "looked at it", BUNDLE)
    assert answer.batches == {"totals": "7"}
    assert "approve" in asked(job, OPERATION).done


def test_declining_ends_the_deploy_with_the_persons_words(job: Registered) -> None:
    """The task fails with them; the operation will not go on."""
    with pytest.raises(DeployFailed, match="not approved by ada: looked at it"):
        record(said("Decline"))
    assert asked(job, OPERATION).fall_back == "not approved by ada: looked at it"


def test_silence_is_no_approval(job: Registered) -> None:
    """When nobody answers in time, Airflow's default comes without a person; not even an approval counts then."""
    with pytest.raises(DeployFailed, match="not approved by airflow: nobody answered within 60 s"):
        record(said("Approve", user=None))


@pytest.mark.parametrize("option", ["Approve", "Decline"])
def test_the_first_answer_counts(job: Registered, option: str) -> None:
    """Approved from the command line: what is said in Airflow afterwards is no error, and changes nothing."""
    from_elsewhere(job, approved=True)
    record(said(option))
    answer = asked(job, OPERATION).approval
    assert answer is not None
    assert (answer.approved, answer.by) == (True, "cli:eve")


def test_an_answer_about_another_bundle_is_none(job: Registered) -> None:
    """Who saw other code has not approved this one."""
    from streamkeeper.errors import OperationRefused

    with pytest.raises(OperationRefused, match="not dddddddddddd"):
        record(said("Approve"), bundle="d" * 64)
    assert asked(job, OPERATION).approval is None


def test_an_abort_needs_no_answer(job: Registered) -> None:
    """Whoever ended the operation meanwhile is not overruled by an approval."""
    abort = AbortRequested(operation=OPERATION, requested_by="eve", reason="wrong release")
    job.site.journal(JOB, "test").append(lambda _: abort)
    with pytest.raises(DeployFailed, match="aborted: wrong release"):
        record(said("Approve"))
    assert asked(job, OPERATION).approval is None


def test_a_rebuilt_output_is_let_through_by_a_person(rebuilt: Registered) -> None:
    """The answer is about the output, up to the batch that was compared; it is none about state."""
    record(said("Approve"), Step.REVIEW)
    after = asked(rebuilt, OPERATION)
    assert after.review is not None
    assert (after.review.approved, after.review.by, after.review.batches) == (True, "ada", {"totals": "3"})
    assert after.approval is None
    assert {"compare", "review"} <= after.done.keys()


def test_a_rebuilt_output_that_is_declined_never_serves(rebuilt: Registered) -> None:
    """Nor one that nobody answers about."""
    with pytest.raises(DeployFailed, match="not approved by ada: these sums are wrong"):
        record(said("Decline", reason="these sums are wrong"), Step.REVIEW)
    assert asked(rebuilt, OPERATION).fall_back == "not approved by ada: these sums are wrong"


def test_an_answer_about_state_lets_no_output_through(rebuilt: Registered) -> None:
    """Approved before the outputs were compared: whoever said so has not seen that they differ."""
    from streamkeeper.errors import OperationRefused

    ask_about_output(rebuilt, "op-early", compared=False)
    with pytest.raises(OperationRefused, match="does not wait for an approval"):
        answer_approval(rebuilt.site, JOB, "op-early", approved=True, by="cli:eve", reason="in a hurry")


def test_a_repeated_answer_about_state_is_none_about_the_output(rebuilt: Registered) -> None:
    """Whoever says it again, or late, has not seen what is asked by now: it has to be named."""
    from streamkeeper.errors import OperationRefused

    about_state = ApprovalAnswered(
        operation=OPERATION, approved=True, by="cli:ada", reason="fine", bundle=BUNDLE, batches={}
    )
    rebuilt.record(about_state)
    with pytest.raises(OperationRefused, match="has asked about the state, and asks about the rebuilt output now"):
        answer_approval(rebuilt.site, JOB, OPERATION, approved=True, by="cli:bob", reason="fine")
    with pytest.raises(OperationRefused, match="asks about the rebuilt output, not about the state"):
        answer_approval(rebuilt.site, JOB, OPERATION, approved=True, by="cli:bob", reason="fine", about=About.STATE)
    assert asked(rebuilt, OPERATION).review is None
    answer_approval(rebuilt.site, JOB, OPERATION, approved=True, by="cli:bob", reason="seen", about=About.OUTPUT)
    assert asked(rebuilt, OPERATION).review.by == "cli:bob"


def test_where_the_risk_was_accepted_nobody_is_asked_about_state(job: Registered) -> None:
    """An answer would stop nothing, and say that it did."""
    from streamkeeper.errors import OperationRefused

    ask(job, "op-bold", accept_risk=True)
    with pytest.raises(OperationRefused, match="does not wait for an approval"):
        answer_approval(job.site, JOB, "op-bold", approved=False, by="cli:eve", reason="stop")


def test_the_question_about_an_output_shows_the_rows_that_differ(rebuilt: Registered) -> None:
    """Why one is asked, how many rows, and some of them; a bar in a value does not break the table."""
    from streamkeeper.operations.questions import render_question, subject_of

    state, operation = rebuilt.site.journal(JOB, "test").state(), asked(rebuilt, OPERATION)
    assert subject_of(state, operation) == "Let the rebuilt output of r0002 of sales take the place of that of r0001?"
    text = render_question(rebuilt.site.store, state, operation)
    for words in (
        "**r0002** is to take over from **r0001**, asked for by somebody: right sums",
        "- query totals: the outputs differ: 4 of 4 common rows differ (amount 4)",
        "4 rows and 4: 0 only old, 0 only new, 4 differ (amount 4)",
        "| customer='a\\|b' | amount | 1 | 2 |",
        "what was read since is read and written again",
        f"streamkeeper approve {JOB} {OPERATION}",
    ):
        assert words in text


def test_the_question_tells_what_a_person_needs(job: Registered) -> None:
    """Who asks, what is uncertain, the snapshot, what a way back costs, and how to answer from elsewhere."""
    from streamkeeper.operations.questions import render_question

    text = render_question(job.site.store, job.site.journal(JOB, "test").state(), asked(job, OPERATION))
    for words in (
        "**r0002** is to take over from **r0001**",
        "faster",
        "`code-in-state-changed`",
        "snapshot `s0001`",
        "r0001 goes back to its last batch, by a snapshot; what was read since is read and written again",
        f"streamkeeper approve {JOB} {OPERATION} --about state --reason",
    ):
        assert words in text


def test_the_journal_answers_only_what_it_knows(job: Registered) -> None:
    """The waiting trigger looks there: nothing while a person is to be asked; the decision once there is one."""
    from streamkeeper.orchestration.answer_trigger import answer_in

    assert answer_in(asked(job, OPERATION), Step.APPROVE) is None
    from_elsewhere(job, approved=True)
    answer = answer_in(asked(job, OPERATION), Step.APPROVE)
    assert answer is not None
    assert (answer["chosen_options"], answer["responded_by_user"]) == (["Approve"], None)


def test_the_trigger_travels_with_all_it_needs(job: Registered) -> None:
    """Read back from what Airflow stores of it, it is about the same question."""
    from uuid import UUID

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
