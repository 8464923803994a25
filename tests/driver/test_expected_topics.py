"""In which Kafka topics a driver lets its query continue, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.driver.taking_over import _expected_topics
from streamkeeper.model.checkpoint_version import CheckpointVersion
from streamkeeper.model.job_state import JobState, fold
from streamkeeper.model.journal import Entry, EpochClaimed, InstancePlanned, Record, Role

OLD, APPROVED = {"sales": "old"}, {"sales": "approved"}


def state(*claims: tuple[str, str, str, dict[str, str]]) -> JobState:
    """A job with two versions; each claim is operation, instance, version and topics."""
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


def expected(job: JobState, place: Path, *, approved: bool, serving: str = "") -> dict[str, str]:
    """For an order of the operation ``op2``."""
    rehearse_on = {"q": serving} if serving else {}
    at: Any = SimpleNamespace(spec=SimpleNamespace(rehearse_on=rehearse_on))
    order: Any = SimpleNamespace(operation="op2", other_topics=("q",) if approved else ())
    return _expected_topics(at, job, "q", LocalTree(place), order)


def test_without_an_approval_those_of_the_checkpoint(tmp_path: Path) -> None:
    """The ids of its newest claim."""
    assert expected(state(("op1", "first", "v0001", OLD)), tmp_path / "v0001", approved=False) == OLD


def test_an_approval_lets_any_topic_be_read_until_it_is_claimed(tmp_path: Path) -> None:
    """A claim of an earlier operation does not count."""
    assert expected(state(("op1", "first", "v0001", OLD)), tmp_path / "v0001", approved=True) == {}


@pytest.mark.parametrize("version", ["v0001", "v0002"])
def test_the_claim_of_the_operation_ends_the_approval(tmp_path: Path, version: str) -> None:
    """For a restarted generation, and for a fall-back to the version before."""
    job = state(("op1", "first", "v0001", OLD), ("op2", "second", version, APPROVED))
    assert expected(job, tmp_path / "v0001", approved=True) == APPROVED


def test_a_rebuilt_version_that_was_never_claimed_has_read_the_topics_of_the_first_rows(tmp_path: Path) -> None:
    """Its cutover was interrupted. Negative control: a version without a checkpoint has read none."""
    job = state(("op1", "first", "v0001", OLD), ("op1", "later", "v0001", APPROVED))
    serving, rebuilt = str(tmp_path / "v0001"), tmp_path / "v0002"
    assert expected(job, rebuilt, approved=False, serving=serving) == {}
    (rebuilt / "offsets").mkdir(parents=True)
    (rebuilt / "metadata").write_text('{"id":"f1d59810-eaab-48e1-8081-cfb9a2991009"}')
    (rebuilt / "offsets/0").write_text('v1\n{"batchWatermarkMs":0,"conf":{}}\n{"sales":{"0":5}}')
    assert expected(job, rebuilt, approved=False, serving=serving) == OLD
