"""Tests who may answer an approval or accept a risk in advance, and what passes when a part of the rule is missing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streamkeeper.errors import OperationRefused
from streamkeeper.lifecycle.right_to_answer import (
    RightToAnswer,
    may_change_approvers,
    must_have_right,
    right_to_answer,
)
from streamkeeper.model.manifests.release import Environment, Release, ReleaseContent
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.requests.diagnosis import Recovery, RecoveryAction
from streamkeeper.model.requests.request import Deployment, DeployRequest
from streamkeeper.model.settings.settings import Settings

USUAL = Settings(store="s", checkpoints="c", jobs="j", home="h")
ADA_AND_BOB = ("ada", "bob")
BEFOREHAND: tuple[dict[str, Any], ...] = (
    {"accept_risk": True},
    {"accept_loss": True},
    {"accept_state_loss": True},
    {"compare": False},
    {"most_missing": 0.1},
    {"most_differing": 1.0},
    {"expect_different": ("amount",)},
)


def settings(*approvers: str, four_eyes: bool = False) -> Settings:
    return msgspec.structs.replace(USUAL, approvers=approvers, four_eyes=four_eyes)


def job(serving: tuple[str, ...] = (), candidate: tuple[str, ...] = ()) -> JobState:
    """Return a job whose current release r0001 has the first list of approvers and whose release r0002 has the
    second.
    """
    environment = Environment(python="3", spark="4", packages_sha256="p", jars_sha256="j", digest="d")
    releases = {
        f"r000{number}": Release(
            job="sales",
            number=number,
            content=ReleaseContent(
                bundle="b", bundle_bytes=1, entry="sales.py", params={}, conf={}, environment=environment,
                state_format="f", approvers=approvers,
            ),
        )
        for number, approvers in ((1, serving), (2, candidate))
    }  # fmt: skip
    return JobState(job="sales", releases=releases, serving_release="r0001")


def objection(by: str, given: Settings, state: JobState | None = None, *, asked_by: str = "carol") -> str:
    return right_to_answer(given, state or job(), asked_by).objection(by)


@pytest.mark.parametrize("by", ["ada", "cli:root", "anybody", "carol"])
def test_without_a_list_of_approvers_any_user_may_answer(by: str) -> None:
    """Without a list of approvers any user may answer, including the requester."""
    assert objection(by, settings()) == ""
    assert right_to_answer(settings(), job(), "carol").named() is None


def test_who_is_not_on_the_list_may_not_answer() -> None:
    """A user who is not on the list may not answer, even with a name that looks like a listed one. Negative control:
    listed users may answer.
    """
    assert objection("ada", settings(*ADA_AND_BOB)) == objection("bob", settings(*ADA_AND_BOB)) == ""
    for by in ("mallory", "Ada", "cli:ada", "ada ", "", " ", "\N{CYRILLIC SMALL LETTER A}da", "airflow"):
        assert objection(by, settings(*ADA_AND_BOB)), by
    assert "cli:ada is not among the approvers of the installation: ada, bob" in objection(
        "cli:ada", settings(*ADA_AND_BOB)
    )


def test_a_jobs_list_narrows_that_of_the_installation_and_never_widens_it() -> None:
    """A user must be on both the job's and the installation's list; a job's list cannot widen the installation's."""
    narrowed = job(serving=("bob", "mallory"))
    assert objection("bob", settings(*ADA_AND_BOB), narrowed) == ""
    assert "approvers of r0001 of sales" in objection("ada", settings(*ADA_AND_BOB), narrowed)
    assert "approvers of the installation" in objection("mallory", settings(*ADA_AND_BOB), narrowed)
    assert objection("mallory", settings(), narrowed) == ""


def test_a_candidate_does_not_appoint_its_own_approver() -> None:
    """The approvers of the serving release count, not those of the candidate. Negative control: once the candidate is
    promoted, its list counts.
    """
    state = job(serving=("ada",), candidate=("mallory",))
    assert objection("mallory", settings(), state)
    assert objection("ada", settings(), state) == ""
    promoted = msgspec.structs.replace(state, serving_release="r0002")
    assert objection("mallory", settings(), promoted) == ""


def test_a_job_that_never_served_goes_by_the_installation() -> None:
    """For a job without a serving release only the installation's list counts."""
    first = msgspec.structs.replace(job(candidate=("mallory",)), serving_release="")
    assert objection("mallory", settings("ada"), first)
    assert objection("ada", settings("ada"), first) == ""


@pytest.mark.parametrize("by", ["carol", "Carol", "cli:carol", "carol@corp.example", " CAROL"])
def test_with_four_eyes_the_requester_may_not_answer(by: str) -> None:
    """With four eyes the requester may not answer, through either door and in any spelling of the name. Negative
    controls: a different user may answer, and without four eyes the requester may.
    """
    assert "carol requested it" in objection(by, settings(four_eyes=True))
    assert objection("ada", settings(four_eyes=True)) == ""
    assert objection(by, settings()) == ""


@pytest.mark.parametrize("asked_by", ["", "airflow"])
def test_with_four_eyes_an_unknown_requester_blocks_all_answers(asked_by: str) -> None:
    """With four eyes nobody may answer when the requester is unknown, while a request of the watch may be answered by
    any user.
    """
    assert "the requester is unknown" in objection("ada", settings(four_eyes=True), asked_by=asked_by)
    assert objection("ada", settings(four_eyes=True), asked_by="the watch") == ""
    assert objection("ada", settings(), asked_by=asked_by) == ""


def test_the_rule_lists_the_users_who_may_answer() -> None:
    """The rule lists the users who may answer; the list is empty only if nobody may, and the sentence then names the
    lists.
    """
    both = right_to_answer(settings(*ADA_AND_BOB, four_eyes=True), job(serving=("bob", "eve")), "ada")
    assert [each.name for each in both.named() or ()] == ["bob"]
    assert both.sentence == "bob"
    nobody = RightToAnswer(lists={"the installation": ("ada",)}, four_eyes=True, asked_by="ada")
    assert nobody.named() == ()
    assert nobody.sentence == "no user is left: the installation names ada"
    twice = right_to_answer(settings("ada=3", "bob=1"), job(serving=("ada", "bob=2")), "carol")
    assert twice.sentence == "ada"
    apart = right_to_answer(settings("ada"), job(serving=("bob",)), "carol")
    assert apart.named() == ()


@pytest.mark.parametrize("said", BEFOREHAND, ids=lambda said: next(iter(said)))
def test_an_advance_acceptance_requires_the_right_to_answer(said: dict[str, Any]) -> None:
    """A request that accepts a risk in advance is refused if its requester may not answer. Negative controls: a listed
    requester, an installation without a list, and a dry run.
    """
    request = DeployRequest(job="sales", requested_by="mallory", **said)
    with pytest.raises(OperationRefused, match=f"^{next(iter(said))}.*: mallory is not among the approvers"):
        must_have_right(settings(*ADA_AND_BOB), job(), request)
    must_have_right(settings("mallory"), job(), request)
    must_have_right(settings(), job(), request)
    must_have_right(settings(*ADA_AND_BOB), job(), msgspec.structs.replace(request, dry_run=True))


def test_with_four_eyes_a_requester_may_not_accept_a_risk_in_advance() -> None:
    """With four eyes a requester may not accept a risk in advance, even as an approver."""
    request = DeployRequest(job="sales", requested_by="ada", accept_risk=True)
    with pytest.raises(OperationRefused, match="^accept_risk may not be set: ada requested it"):
        must_have_right(settings("ada", four_eyes=True), job(), request)
    must_have_right(settings("ada", four_eyes=True), job(), DeployRequest(job="sales", requested_by="ada"))


def test_with_four_eyes_an_output_loss_is_accepted_by_a_different_person() -> None:
    """For a recovery that loses output, the person who accepts is checked, with four eyes or a list; a deploy that
    accepts the loss in advance has no such person and is refused.
    """
    recover = Recovery(action=RecoveryAction.RESTART, cause="x", accepted_by="bob")
    request = DeployRequest(job="sales", requested_by="ada", accept_output_loss=True).of_kind(recover)
    must_have_right(settings(four_eyes=True), job(), request)
    must_have_right(settings("bob"), job(), request)
    with pytest.raises(OperationRefused, match="^accept_output_loss"):
        must_have_right(settings("bob"), job(), request.of_kind(Deployment()))


def test_a_recoverys_loss_is_accepted_only_by_a_user_who_may_answer() -> None:
    """Any user may request a recovery, but its loss can only be accepted by a user who may answer."""

    def recovery(accepted_by: str) -> DeployRequest:
        recover = Recovery(action=RecoveryAction.RESTORE, cause="x", accepted_by=accepted_by)
        return DeployRequest(job="sales", requested_by="carol").of_kind(recover)

    must_have_right(settings("ada"), job(), recovery("ada"))
    must_have_right(settings("ada"), job(), recovery(""))
    with pytest.raises(
        OperationRefused, match="no authorized person has accepted this: mallory is not among the approvers"
    ):
        must_have_right(settings("ada"), job(), recovery("mallory"))
    with pytest.raises(OperationRefused, match="carol requested it"):
        must_have_right(settings(four_eyes=True), job(), recovery("cli:carol"))


@pytest.mark.parametrize("candidate", [(), ("mallory",), ("ada", "mallory"), ("ada=3",)])
def test_an_unlisted_user_may_not_deploy_different_approvers(candidate: tuple[str, ...]) -> None:
    """A user who is not on the job's list may not deploy a release with different approvers, including one without a
    list.
    """
    state = job(serving=("ada",), candidate=candidate)
    with pytest.raises(OperationRefused, match="release r0002 has other approvers than r0001: mallory is not among"):
        may_change_approvers(settings(), state, DeployRequest(job="sales", requested_by="mallory"), "r0002")
    may_change_approvers(settings(), state, DeployRequest(job="sales", requested_by="ada"), "r0002")
    may_change_approvers(settings(four_eyes=True), state, DeployRequest(job="sales", requested_by="ada"), "r0002")


def test_any_user_may_deploy_an_unchanged_or_first_list_of_approvers() -> None:
    """Any user may deploy a release with the same approvers in any order, or a first list for a job without one, and
    may run a dry run.
    """
    asked = DeployRequest(job="sales", requested_by="mallory")
    may_change_approvers(settings(), job(serving=ADA_AND_BOB, candidate=("bob", "ada")), asked, "r0002")
    may_change_approvers(settings(), job(candidate=("mallory",)), asked, "r0002")
    dry_run = msgspec.structs.replace(asked, dry_run=True)
    may_change_approvers(settings(), job(serving=("ada",), candidate=("mallory",)), dry_run, "r0002")
