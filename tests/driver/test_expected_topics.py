"""Tests without Spark of the Kafka topics in which a driver lets its query continue."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.driver import taking_over
from streamkeeper.driver.taking_over import _approved_topics, _expected_topics, _own_topics, _topics_of
from streamkeeper.errors import SourceOutOfReach
from streamkeeper.model.records.checkpoint_version import CheckpointVersion
from streamkeeper.model.records.job_state import JobState, fold
from streamkeeper.model.records.journal_records import Entry, EpochClaimed, InstancePlanned, Record, Role

OLD, APPROVED = {"sales": "old"}, {"sales": "approved"}


def state(*claims: tuple[str, str, str, dict[str, str]]) -> JobState:
    """Return a job with two versions and these claims, each an operation, instance, version and topics."""
    made = [
        CheckpointVersion(query="q", version=name, release="r0001", origin="new", state_format="")
        for name in ("v0001", "v0002")
    ]
    found = JobState(job="sales", versions={"q": tuple(made)})
    records: list[Record] = []
    for epoch, (operation, instance, version, topics) in enumerate(claims, 1):
        records += [
            InstancePlanned(operation=operation, instance=instance, release="r0001", role=Role.CANDIDATE),
            EpochClaimed(
                query="q", output="o", epoch=epoch, instance=instance, generation=1, version=version, topics=topics
            ),
        ]
    for record in records:
        found = fold(found, Entry(number=found.number + 1, at="", by="test", record=record))
    return found


def expected(
    job: JobState,
    place: Path,
    *,
    approved: bool,
    serving: str = "",
    ids: dict[str, str] | None = None,
    now: dict[str, str] | None = None,
) -> dict[str, str]:
    """Return the expected topic ids for an order of the operation ``op2``; ``ids``: the recorded ids of the approved
    topics; ``now``: the present ids, if the brokers answer.
    """
    rehearse_on = {"q": serving} if serving else {}
    at: Any = SimpleNamespace(spec=SimpleNamespace(rehearse_on=rehearse_on))
    others: Any = {"other_topics": ("q",) if approved else (), "approved_topics": {"q": ids} if ids else {}}
    order: Any = SimpleNamespace(operation="op2", **others)
    own = _own_topics(at, job, "q", LocalTree(place))
    return _expected_topics(own, _approved_topics(job, "q", order), now or {})


def test_topic_ids_of_the_newest_claim_are_expected_without_an_approval(tmp_path: Path) -> None:
    """Without an approval, a query may continue only in the topics with the ids of its checkpoint's newest claim."""
    assert expected(state(("op1", "first", "v0001", OLD)), tmp_path / "v0001", approved=False) == OLD


def test_an_approval_is_for_the_topics_that_were_checked(tmp_path: Path) -> None:
    """An approval covers exactly the topic ids that were checked, so that a topic that was recreated after the check is
    refused; a claim of an earlier operation does not end it.
    """
    job = state(("op1", "first", "v0001", OLD))
    assert expected(job, tmp_path / "v0001", approved=True, ids=APPROVED) == APPROVED


def test_an_approval_without_ids_lets_any_topic_be_read_until_it_is_claimed(tmp_path: Path) -> None:
    """An approval without ids, as in the commands of an older version, accepts any topic until the operation has
    claimed.
    """
    assert expected(state(("op1", "first", "v0001", OLD)), tmp_path / "v0001", approved=True) == {}


@pytest.mark.parametrize("version", ["v0001", "v0002"])
def test_the_claim_of_the_operation_ends_the_approval(tmp_path: Path, version: str) -> None:
    """Once the operation has claimed, the ids of its claim replace the approval, for a restarted generation and for a
    fall-back.
    """
    job = state(("op1", "first", "v0001", OLD), ("op2", "second", version, APPROVED))
    assert expected(job, tmp_path / "v0001", approved=True, ids={"sales": "checked"}) == APPROVED


def test_a_claim_without_ids_does_not_end_the_comparison(tmp_path: Path) -> None:
    """If the brokers did not answer when a handoff claimed, the ids of the parent version are expected for a restart
    and for a fall-back.
    """
    job = state(("op1", "first", "v0001", OLD))
    version = CheckpointVersion(
        query="q", version="v0002", release="r0001", origin="handoff", state_format="", parent="v0001", parent_batch=3
    )
    job = replace(job, versions={"q": (job.versions["q"][0], version)})
    claims: list[Record] = [
        InstancePlanned(operation="op2", instance="second", release="r0001", role=Role.CANDIDATE),
        EpochClaimed(query="q", output="o", epoch=2, instance="second", generation=1, version="v0002"),
    ]
    for record in claims:
        job = fold(job, Entry(number=job.number + 1, at="", by="test", record=record))
    assert expected(job, tmp_path / "v0001", approved=True) == OLD


def test_a_version_may_always_continue_in_its_own_topic(tmp_path: Path) -> None:
    """A version may continue in its own topic even if another topic was approved, as in an automatic rollback."""
    job = state(("op1", "first", "v0001", OLD))
    for now, continues in ((OLD, OLD), (APPROVED, APPROVED), ({}, APPROVED)):
        assert expected(job, tmp_path / "v0001", approved=True, ids=APPROVED, now=now) == continues


def test_a_topic_that_was_not_approved_is_compared(tmp_path: Path) -> None:
    """If a checkpoint has read two topics and one was approved, the other one must keep its recorded id."""
    job = state(("op1", "first", "v0001", OLD | {"returns": "r"}))
    both = APPROVED | {"returns": "r"}
    assert expected(job, tmp_path / "v0001", approved=True, ids=APPROVED, now=both) == both


@pytest.mark.parametrize(("answer", "claimed"), [({}, OLD), (OLD | {"new": "n"}, OLD | {"new": "n"})])
def test_a_claim_records_the_expected_ids_if_the_brokers_are_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: dict[str, str], claimed: dict[str, str]
) -> None:
    """A claim records the expected topic ids if the brokers do not answer, so that a later start or fall-back still has
    ids to compare with.
    """
    seen: list[dict[str, str]] = []

    def claim(*_: object, topics: dict[str, str], **__: object) -> tuple[None, None]:
        seen.append(topics)
        return None, None

    job, nothing = state(("op1", "first", "v0001", OLD)), lambda *_, **__: None
    for name, value in (
        ("checkpoint_of", lambda *_: LocalTree(tmp_path / "v0001")),
        ("_topics_of", lambda *_, **__: answer),
        ("claim_and_fence", claim),
        *((each, nothing) for each in ("_known", "must_be_there", "_accepted_loss", "_behind_its_gate")),
    ):
        monkeypatch.setattr(taking_over, name, value)
    context: Any = SimpleNamespace(
        channel=SimpleNamespace(look=lambda: job), spec=SimpleNamespace(checkpoints="", rehearse_on={})
    )
    order: Any = SimpleNamespace(operation="op2", versions={}, other_topics=(), approved_topics={})
    planned: Any = SimpleNamespace(query=SimpleNamespace(name="q"))
    taking_over.take_over(context, planned, order)
    assert seen == [claimed]


@pytest.mark.parametrize(("must_answer", "passing"), [(True, True), (True, False), (False, True)])
def test_a_takeover_without_recorded_ids_waits_for_the_brokers(
    monkeypatch: pytest.MonkeyPatch, must_answer: bool, passing: bool
) -> None:
    """A takeover without recorded topic ids waits for the brokers after a temporary error only; otherwise it continues,
    and its start compares the ids.
    """
    asked = []

    def silent(query: object) -> dict[str, str]:
        asked.append(query)
        raise SourceOutOfReach("the brokers are away", passing=passing)

    monkeypatch.setattr(taking_over.source_readers, "identities", silent)
    manifest = SimpleNamespace(sources=[SimpleNamespace(kind="kafka")])
    planned: Any = SimpleNamespace(manifest=manifest, query="q")
    waits = must_answer and passing
    with pytest.raises(SourceOutOfReach) if waits else nullcontext():
        assert _topics_of(planned, must_answer=must_answer) == {}
    assert asked == ["q"]


def test_an_unclaimed_rebuilt_version_expects_the_topics_of_the_first_claim(tmp_path: Path) -> None:
    """A rebuilt version whose cutover was interrupted before its claim expects the topics of the first claim. Negative
    control: without a checkpoint it expects none.
    """
    job = state(("op1", "first", "v0001", OLD), ("op1", "later", "v0001", APPROVED))
    serving, rebuilt = str(tmp_path / "v0001"), tmp_path / "v0002"
    assert expected(job, rebuilt, approved=False, serving=serving) == {}
    (rebuilt / "offsets").mkdir(parents=True)
    (rebuilt / "metadata").write_text('{"id":"f1d59810-eaab-48e1-8081-cfb9a2991009"}')
    (rebuilt / "offsets/0").write_text('v1\n{"batchWatermarkMs":0,"conf":{}}\n{"sales":{"0":5}}')
    assert expected(job, rebuilt, approved=False, serving=serving) == OLD
