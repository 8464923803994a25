"""Whose answer counts, held where it is recorded and again where it is used: every door comes through here."""

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
    """Why the answer does not count; nothing of it is in the journal."""
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
def test_only_who_is_on_the_list_answers(job: Registered, approved: bool) -> None:
    """A yes as well as a no, and nobody who looks alike; negative control: who is on it."""
    ask(job, OPERATION)
    job.set(approvers=("ada", "bob=7"))
    for by in ("mallory", "root", *LOOK_ALIKES):
        refused(job, by, approved=approved)
    assert "bob is not among the approvers of the installation: ada, bob=7" in refused(job, "bob", user_id="8")
    assert answer(job, "ada", approved=approved).by == "ada"


@pytest.mark.parametrize("by", ["mallory", *LOOK_ALIKES[:-2]])
def test_without_a_list_anybody_answers(job: Registered, by: str) -> None:
    """Negative control, and what it was before there were lists."""
    ask(job, OPERATION)
    assert answer(job, by).by == by


def test_a_candidate_does_not_appoint_who_approves_it(tmp_path: Path) -> None:
    """Its own list is in the very code that is asked about: the serving release's counts."""
    job = Registered(tmp_path, approvers=("ada",))
    ask(job, OPERATION, approvers=("mallory",))
    assert "mallory is not among the approvers of r0001 of sales: ada" in refused(job, "mallory")
    assert answer(job, "ada").approved


def test_who_has_asked_for_it_does_not_answer(job: Registered) -> None:
    """With four eyes, by no door and in no spelling; negative control: without them."""
    ask(job, OPERATION, requested_by="ada")
    job.set(four_eyes=True)
    for by in ("ada", "cli:ada", "ADA", "ada@corp.example"):
        assert "ada requested it, so another person must answer" in refused(job, by)
    assert answer(job, "bob").by == "bob"


def test_without_four_eyes_who_has_asked_for_it_answers(job: Registered) -> None:
    """Negative control: the setting is what refuses them."""
    ask(job, OPERATION, requested_by="ada")
    assert answer(job, "cli:ada").approved


def test_an_answer_about_an_output_needs_the_same_right(job: Registered) -> None:
    """The second question of a deploy is no way around the first one's rule."""
    ask_about_output(job, OPERATION)
    job.set(approvers=("ada",))
    refused(job, "mallory")
    assert answer_approval(
        job.installation, JOB, OPERATION, approved=True, by="ada", reason="seen", about=About.OUTPUT
    ).approved


def test_a_late_answer_about_the_state_does_not_answer_the_question_about_the_output(job: Registered) -> None:
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


def test_an_operation_without_a_question_takes_no_answer(job: Registered) -> None:
    """Its snapshot is not taken yet, so nobody can have seen what the answer would be about."""
    ask(job, OPERATION, backup=False)
    before = job.installation.journal(JOB, "test").state().number
    with pytest.raises(OperationRefused, match=f"^operation {OPERATION} of job {JOB} does not wait for an approval$"):
        answer(job, "ada")
    assert job.installation.journal(JOB, "test").state().number == before


def test_silence_needs_no_right_and_is_no_yes(job: Registered) -> None:
    """A list never keeps a question open for ever."""
    ask(job, OPERATION)
    job.set(approvers=("ada",), four_eyes=True)
    recorded = decline_for_silence(job.installation, JOB, OPERATION, reason="nobody answered", bundle=BUNDLE)
    assert (recorded.approved, recorded.by) == (False, "airflow")


def test_who_may_not_answer_does_not_repeat_an_answer_either(job: Registered) -> None:
    """The journal has the first one, and says who gave it; a second one by the same person changes nothing."""
    ask(job, OPERATION)
    job.set(approvers=("ada", "bob"))
    answer(job, "ada")
    refused(job, "mallory")
    assert (answer(job, "ada").by, answer(job, "bob").by) == ("ada", "ada")
    with pytest.raises(OperationRefused, match="was already approved by ada"):
        answer(job, "bob", approved=False)


def test_what_was_recorded_past_the_list_is_not_used(job: Registered) -> None:
    """By a shell without the installation's settings, or an older version: whoever carries the deploy on refuses it."""
    ask(job, OPERATION)
    assert answer(job, "cli:mallory").approved
    job.set(approvers=("ada",))
    progress = go_on(job)
    assert progress.kind is ProgressKind.FALLING_BACK
    assert progress.sentence == "not approved: cli:mallory is not among the approvers of the installation: ada"
    assert "approve" not in asked(job, OPERATION).done


def test_what_was_recorded_by_who_may_is_used(job: Registered) -> None:
    """Negative control: the same answer goes through where they are on the list."""
    ask(job, OPERATION)
    answer(job, "cli:mallory")
    job.set(approvers=("ada", "cli:mallory"))
    assert go_on(job).kind is ProgressKind.DONE
    assert "approve" in asked(job, OPERATION).done


def test_nothing_goes_on_without_an_answer_whoever_asks_it_to(job: Registered) -> None:
    """A task that was marked as done, and the ones after it that run then, wait for the same word."""
    ask(job, OPERATION)
    for step in (Step.APPROVE, Step.READY, Step.DRAIN, Step.PROMOTE):
        progress = Deploy.load(job.installation, JOB, OPERATION).advance(step)
        assert (progress.kind, progress.step) == (ProgressKind.WAITING, Step.APPROVE)


def test_a_no_counts_whoever_recorded_it(job: Registered) -> None:
    """Nothing goes on by it: what serves stays."""
    ask(job, OPERATION)
    answer(job, "cli:mallory", approved=False)
    job.set(approvers=("ada",))
    assert go_on(job).sentence == "not approved by cli:mallory: seen"


def test_a_request_that_answers_beforehand_is_not_begun(job: Registered) -> None:
    """By who may not answer, nothing is recorded; negative control: without the rule it is begun."""
    job.set(approvers=("ada",))
    request = DeployRequest(job=JOB, release="r0001", requested_by="mallory", accept_risk=True)
    with pytest.raises(OperationRefused, match="accept_risk may not be set: mallory is not among the approvers"):
        Deploy.open(job.installation, "op-bold", request)
    assert "op-bold" not in job.installation.journal(JOB, "test").state().operations
    job.set(approvers=())
    assert Deploy.open(job.installation, "op-bold", request).operation == "op-bold"


def test_a_request_that_answers_beforehand_ends_nobody_elses_operation(job: Registered) -> None:
    """It is refused before what is open is aborted for it; negative control: by who may, that is ended."""
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
def test_who_is_not_on_a_jobs_list_does_not_replace_it(tmp_path: Path, approvers: tuple[str, ...]) -> None:
    """A release that changes nothing else would be promoted unasked, and the next one approved by its author."""
    job = Registered(tmp_path, approvers=("ada",))
    register(job, 2, approvers)
    request = DeployRequest(job=JOB, release="r0002", requested_by="mallory")
    progress = Deploy.open(job.installation, "op-theirs", request).advance(Step.BUNDLE)
    assert (progress.kind, progress.outcome) == (ProgressKind.FALLING_BACK, Outcome.REFUSED)
    assert "r0002 has other approvers than r0001: mallory is not among" in progress.sentence


def test_who_is_on_a_jobs_list_may_replace_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative controls: one of them, and anybody where the rule is missing."""
    job = Registered(tmp_path, approvers=("ada",))
    register(job, 2, ("bob",))
    mine = Deploy.open(job.installation, "op-mine", DeployRequest(job=JOB, release="r0002", requested_by="ada"))
    assert mine.advance(Step.BUNDLE).kind is ProgressKind.DONE
    mine.abort(requested_by="ada", reason="enough")
    mine.advance(Step.FALL_BACK)
    monkeypatch.setattr(rule, "_own_list", lambda *_: ())
    theirs = Deploy.open(job.installation, "op-theirs", DeployRequest(job=JOB, release="r0002", requested_by="mallory"))
    assert theirs.advance(Step.BUNDLE).kind is ProgressKind.DONE
