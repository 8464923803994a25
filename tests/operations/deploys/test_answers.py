"""Tests whose answer to an approval counts, both when it is recorded and when it is used."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.errors import OperationRefused
from streamkeeper.lifecycle import right_to_answer as rule
from streamkeeper.model.records.journal_records import About, ApprovalAnswered, Outcome, ReleaseRegistered
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.approval import answer_approval, decline_for_silence
from streamkeeper.operations.deploys.deploy import Deploy, OnOpen, Progress, ProgressKind
from tests.operations.registered_job import JOB, Registered
from tests.orchestration.asking import BUNDLE, ask, ask_about_output, asked

OPERATION = "op-asks"
LOOK_ALIKES = ("Ada", "ADA", "ada ", "cli:ada", "\N{CYRILLIC SMALL LETTER A}da", "a\N{ZERO WIDTH SPACE}da", "", " ")


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    return Registered(tmp_path)


def answer(job: Registered, by: str, *, approved: bool = True, user_id: str = "") -> ApprovalAnswered:
    return answer_approval(job.installation, JOB, OPERATION, approved=approved, by=by, reason="seen", user_id=user_id)


def refused(job: Registered, by: str, *, approved: bool = True, user_id: str = "") -> str:
    """Return why the answer does not count, after checking that the journal is unchanged."""
    before = job.installation.journal(JOB, "test").state().number
    with pytest.raises(
        OperationRefused, match=f"^the answer to operation {OPERATION} of job {JOB} does not count"
    ) as no:
        answer(job, by, approved=approved, user_id=user_id)
    assert job.installation.journal(JOB, "test").state().number == before
    return str(no.value)


def go_on(job: Registered) -> Progress:
    return Deploy.load(job.installation, JOB, OPERATION).advance(Step.APPROVE)


@pytest.mark.parametrize("approved", [True, False])
def test_only_answers_of_listed_users_count(job: Registered, approved: bool) -> None:
    """Neither an approval nor a rejection counts from a user who is not on the list, even with a similar-looking name
    or the wrong user id. Negative control: a listed user's answer counts.
    """
    ask(job, OPERATION)
    job.set(approvers=("ada", "bob=7"))
    for by in ("mallory", "root", *LOOK_ALIKES):
        refused(job, by, approved=approved)
    assert "bob is not among the approvers of the installation: ada, bob=7" in refused(job, "bob", user_id="8")
    assert answer(job, "ada", approved=approved).by == "ada"


@pytest.mark.parametrize("by", ["mallory", *LOOK_ALIKES[:-2]])
def test_without_a_list_any_users_answer_is_recorded(job: Registered, by: str) -> None:
    """Negative control: without a list of approvers any user's answer is recorded."""
    ask(job, OPERATION)
    assert answer(job, by).by == by


def test_a_candidates_own_list_does_not_decide_its_approvers(tmp_path: Path) -> None:
    """The approvers of the serving release may answer, not those that the candidate's own code lists."""
    job = Registered(tmp_path, approvers=("ada",))
    ask(job, OPERATION, approvers=("mallory",))
    assert "mallory is not among the approvers of r0001 of sales: ada" in refused(job, "mallory")
    assert answer(job, "ada").approved


def test_with_four_eyes_the_requesters_answer_is_refused(job: Registered) -> None:
    """With four eyes the requester may not answer in any spelling or through any door; a different user may."""
    ask(job, OPERATION, requested_by="ada")
    job.set(four_eyes=True)
    for by in ("ada", "cli:ada", "ADA", "ada@corp.example"):
        assert "ada requested it, so another person must answer" in refused(job, by)
    assert answer(job, "bob").by == "bob"


def test_without_four_eyes_the_requester_may_answer(job: Registered) -> None:
    """Negative control: without four eyes the requester may answer."""
    ask(job, OPERATION, requested_by="ada")
    assert answer(job, "cli:ada").approved


def test_an_output_review_accepts_only_users_who_may_answer(job: Registered) -> None:
    """The review of a deploy's output accepts only answers of users who may answer."""
    ask_about_output(job, OPERATION)
    job.set(approvers=("ada",))
    refused(job, "mallory")
    assert answer_approval(
        job.installation, JOB, OPERATION, approved=True, by="ada", reason="seen", about=About.OUTPUT
    ).approved


def test_an_answer_without_a_subject_is_refused_at_the_second_question(job: Registered) -> None:
    """An answer that names no subject, given while the second question is open, is refused and not recorded."""
    ask_about_output(job, OPERATION)
    yes = {"operation": OPERATION, "approved": True, "by": "ada", "reason": "seen", "bundle": BUNDLE, "batches": {}}
    job.record(ApprovalAnswered(about=About.STATE, **yes))
    before = job.installation.journal(JOB, "test").state().number
    with pytest.raises(OperationRefused, match="already has an answer about .*, and now needs one about") as refusal:
        answer(job, "ada")
    assert "--about output" in refusal.value.hint
    assert job.installation.journal(JOB, "test").state().number == before
    assert answer_approval(
        job.installation, JOB, OPERATION, approved=True, by="ada", reason="seen", about=About.OUTPUT
    ).approved


def test_an_answer_before_the_approval_is_awaited_is_refused(job: Registered) -> None:
    """An answer is refused before the operation waits for an approval, and nothing is recorded."""
    ask(job, OPERATION, backup=False)
    before = job.installation.journal(JOB, "test").state().number
    with pytest.raises(OperationRefused, match=f"^operation {OPERATION} of job {JOB} does not wait for an approval$"):
        answer(job, "ada")
    assert job.installation.journal(JOB, "test").state().number == before


def test_an_unanswered_approval_is_declined_on_behalf_of_airflow(job: Registered) -> None:
    """An unanswered question is declined on behalf of ``airflow``, even with a list and four eyes."""
    ask(job, OPERATION)
    job.set(approvers=("ada",), four_eyes=True)
    recorded = decline_for_silence(job.installation, JOB, OPERATION, reason="nobody answered", bundle=BUNDLE)
    assert (recorded.approved, recorded.by) == (False, "airflow")


def test_only_a_user_who_may_answer_can_repeat_an_answer(job: Registered) -> None:
    """The first recorded answer stands: a repeat by a user who may answer returns it, a contrary answer is refused, and
    a user who may not answer is refused.
    """
    ask(job, OPERATION)
    job.set(approvers=("ada", "bob"))
    answer(job, "ada")
    refused(job, "mallory")
    assert (answer(job, "ada").by, answer(job, "bob").by) == ("ada", "ada")
    with pytest.raises(OperationRefused, match="was already approved by ada"):
        answer(job, "bob", approved=False)


def test_an_approval_recorded_without_the_list_is_rejected_at_use(job: Registered) -> None:
    """An approval that was recorded without the list is rejected when the deploy uses it, and the deploy falls back."""
    ask(job, OPERATION)
    assert answer(job, "cli:mallory").approved
    job.set(approvers=("ada",))
    progress = go_on(job)
    assert progress.kind is ProgressKind.FALLING_BACK
    assert progress.sentence == "not approved: cli:mallory is not among the approvers of the installation: ada"
    assert "approve" not in asked(job, OPERATION).done


def test_a_recorded_approval_of_a_listed_user_is_used(job: Registered) -> None:
    """Negative control: the same recorded approval counts if the user is on the list."""
    ask(job, OPERATION)
    answer(job, "cli:mallory")
    job.set(approvers=("ada", "cli:mallory"))
    assert go_on(job).kind is ProgressKind.DONE
    assert "approve" in asked(job, OPERATION).done


def test_every_later_step_waits_for_the_approval(job: Registered) -> None:
    """Every later step waits for the approval as well, so that a task marked as successful does not bypass it."""
    ask(job, OPERATION)
    for step in (Step.APPROVE, Step.READY, Step.DRAIN, Step.PROMOTE):
        progress = Deploy.load(job.installation, JOB, OPERATION).advance(step)
        assert (progress.kind, progress.step) == (ProgressKind.WAITING, Step.APPROVE)


def test_a_recorded_rejection_counts_from_any_user(job: Registered) -> None:
    """A recorded rejection counts even if its user is not on the list, because it changes nothing."""
    ask(job, OPERATION)
    answer(job, "cli:mallory", approved=False)
    job.set(approvers=("ada",))
    assert go_on(job).sentence == "not approved by cli:mallory: seen"


def test_an_advance_acceptance_without_the_right_is_not_recorded(job: Registered) -> None:
    """A request that accepts a risk in advance is refused and not recorded if its requester may not answer. Negative
    control: without a list it is recorded.
    """
    job.set(approvers=("ada",))
    request = DeployRequest(job=JOB, release="r0001", requested_by="mallory", accept_risk=True)
    with pytest.raises(OperationRefused, match="accept_risk may not be set: mallory is not among the approvers"):
        Deploy.open(job.installation, "op-bold", request)
    assert "op-bold" not in job.installation.journal(JOB, "test").state().operations
    job.set(approvers=())
    assert Deploy.open(job.installation, "op-bold", request).operation == "op-bold"


def test_an_advance_waiver_without_the_right_aborts_no_open_operation(job: Registered) -> None:
    """A request that waives the comparison is refused before it aborts the open operation if its requester may not
    answer. Negative control: the same request by a listed user aborts it.
    """
    ask(job, OPERATION)
    job.set(approvers=("ada",))
    theirs = DeployRequest(job=JOB, release="r0001", requested_by="mallory", compare=False, reason="mine")
    with pytest.raises(OperationRefused, match="compare=false may not be set: mallory is not among the approvers"):
        Deploy.open(job.installation, "op-bold", theirs, on_open=OnOpen.ABORT)
    assert not asked(job, OPERATION).abort
    Deploy.open(job.installation, "op-bold", replace(theirs, requested_by="ada"), on_open=OnOpen.ABORT)
    assert asked(job, OPERATION).abort


def register(job: Registered, number: int, approvers: tuple[str, ...]) -> None:
    release = job.installation.journal(JOB, "test").state().releases["r0001"]
    content = replace(release.content, bundle=BUNDLE, approvers=approvers)
    job.record(ReleaseRegistered(release=replace(release, number=number, content=content)))


@pytest.mark.parametrize("approvers", [(), ("mallory",)])
def test_an_unlisted_user_may_not_replace_a_jobs_list(tmp_path: Path, approvers: tuple[str, ...]) -> None:
    """A user who is not on the job's list may not deploy a release that changes the list."""
    job = Registered(tmp_path, approvers=("ada",))
    register(job, 2, approvers)
    request = DeployRequest(job=JOB, release="r0002", requested_by="mallory")
    progress = Deploy.open(job.installation, "op-theirs", request).advance(Step.BUNDLE)
    assert (progress.kind, progress.outcome) == (ProgressKind.FALLING_BACK, Outcome.REFUSED)
    assert "r0002 has other approvers than r0001: mallory is not among" in progress.sentence


def test_a_listed_user_may_replace_a_jobs_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listed user may deploy a release that changes the list. Negative control: without the rule any user may."""
    job = Registered(tmp_path, approvers=("ada",))
    register(job, 2, ("bob",))
    mine = Deploy.open(job.installation, "op-mine", DeployRequest(job=JOB, release="r0002", requested_by="ada"))
    assert mine.advance(Step.BUNDLE).kind is ProgressKind.DONE
    mine.abort(requested_by="ada", reason="enough")
    mine.advance(Step.FALL_BACK)
    monkeypatch.setattr(rule, "_own_list", lambda *_: ())
    theirs = Deploy.open(job.installation, "op-theirs", DeployRequest(job=JOB, release="r0002", requested_by="mallory"))
    assert theirs.advance(Step.BUNDLE).kind is ProgressKind.DONE
