"""Tests of the measurement of a handover's gap, which counts the time between commits and not between messages."""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
import pytest

from demo.gap import first_after, handover_gap_s, last_before
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.journal_records import (
    Assessed,
    CheckpointVersionCreated,
    EpochClaimed,
    FallBackDecided,
    HandedOff,
    InstanceAppointed,
    InstanceEnded,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    Role,
)
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.local import LocalStore

JOB, QUERY = "a_job", "q"


class History:
    """A job's journal and commits, with one second before each record; the first release serves in v0001."""

    def __init__(self, root: Path) -> None:
        self.root, self.now = root, 100.0
        self.journal = Journal(LocalStore(root / "store"), JOB, writer="test", now=self._tick)
        self.records(*_served("op1", "old", "v0001"), created("v0001"))

    def _tick(self) -> pendulum.DateTime:
        self.now += 1
        return pendulum.from_timestamp(self.now)

    def records(self, *records: Record) -> None:
        """Append each record to the journal."""
        for record in records:
            before = self.journal.state().number
            self.journal.append(lambda state, record=record, before=before: record if state.number == before else None)

    def commits(self, version: str, *moments: float, first: int = 0) -> None:
        """Create the batches of a version with the times of their commits."""
        folder = self.root / JOB / QUERY / version / "commits"
        folder.mkdir(parents=True, exist_ok=True)
        for number, moment in enumerate(moments, start=first):
            for name in (str(number), f".{number}.crc"):
                (folder / name).touch()
                os.utime(folder / name, (moment, moment))

    def gap_s(self, operation: str) -> float | None:
        """Return the measured gap of an operation."""
        return handover_gap_s(self.journal, operation, self.root, JOB)


def created(version: str) -> Record:
    return CheckpointVersionCreated(query=QUERY, version=version, release="r0001", origin="new", state_format="rocksdb")


def _served(operation: str, instance: str, version: str, way: QueryTransition | None = None) -> list[Record]:
    """Return the records of an operation up to the claim of its instance."""
    ways = {QUERY: way or QueryTransition(way=Transition.START, version=version)}
    assessed = Assessed(
        operation=operation, verdict=Verdict.RESUME, reverse=Verdict.RESUME, sentence="", report="", transitions=ways
    )
    return [
        OperationStarted(operation=operation, request=DeployRequest(job=JOB), steps=()),
        InstancePlanned(operation=operation, instance=instance, release="r0001", role=Role.CANDIDATE),
        assessed,
        *([] if way is None else [ended(operation, "old")]),
        InstanceAppointed(operation=operation, instance=instance, versions={QUERY: version}),
        EpochClaimed(query=QUERY, output="o", epoch=1, instance=instance, generation=1, version=version),
    ]


def ended(operation: str, instance: str) -> Record:
    return InstanceEnded(operation=operation, instance=instance, proof="gone", exit="")


def finished(operation: str, outcome: Outcome) -> Record:
    return OperationFinished(operation=operation, outcome=outcome, sentence="")


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def test_the_last_commit_before_and_first_after_a_moment_are_found(history: History) -> None:
    """The last commit before and the first commit after a moment are found, without counting other files or batches
    below the given number.
    """
    history.commits("v0001", 100.0, 101.0, 103.5, 104.0)
    folder = history.root / JOB / QUERY / "v0001" / "commits"
    assert (last_before(folder, 102.0), first_after(folder, 102.0)) == (101.0, 103.5)
    assert first_after(folder, 102.0, batch=2) == 104.0
    assert last_before(folder, 99.0) is None
    assert first_after(folder.with_name("none"), 0.0) is None


def test_a_first_release_has_no_gap(history: History) -> None:
    """The gap of a first release, which replaces no driver, is unknown and not zero."""
    history.commits("v0001", 110.0)
    assert history.gap_s("op1") is None


def test_the_gap_of_a_resume_lies_between_commits_of_both_drivers(history: History) -> None:
    """The gap of a resume is measured from the last commit before the old driver stopped to the first commit after the
    new driver's claim.
    """
    way = QueryTransition(way=Transition.RESUME, before="v0001", version="v0001")
    history.records(*_served("op2", "new", "v0001", way))
    history.commits("v0001", 105.0, history.now + 1.5, history.now + 2)
    assert history.gap_s("op2") == history.now + 1.5 - 105.0


def test_the_batch_that_is_handed_over_is_no_commit_of_the_new_version(history: History) -> None:
    """The batch that a handoff writes does not end the gap; the first batch after it does."""
    way = QueryTransition(way=Transition.HANDOFF, before="v0001", version="v0002")
    history.records(created("v0002"), *_served("op2", "new", "v0002", way))
    history.records(HandedOff(query=QUERY, version="v0002", parent_batch=0, batch=0))
    history.commits("v0001", 105.0)
    history.commits("v0002", history.now + 1, history.now + 3)
    assert history.gap_s("op2") == history.now + 3 - 105.0


def test_commits_of_a_shadow_before_its_claim_do_not_end_the_gap(history: History) -> None:
    """Commits of a shadow before its claim do not end the gap of a rebuild."""
    way = QueryTransition(way=Transition.REBUILD, before="v0001", version="v0002")
    history.records(created("v0002"), *_served("op2", "new", "v0002", way))
    history.commits("v0001", 105.0)
    history.commits("v0002", 106.0, history.now - 0.5, history.now + 2)
    assert history.gap_s("op2") == history.now + 2 - 105.0


def test_a_fall_back_is_measured_from_the_candidates_last_commit(history: History) -> None:
    """The gap of a fall-back is measured from the candidate's last commit to the next commit of the old release."""
    way = QueryTransition(way=Transition.RESUME, before="v0001", version="v0001")
    history.records(*_served("op2", "new", "v0001", way), FallBackDecided(operation="op2", reason="broken"))
    served_until = history.now + 0.5
    history.records(ended("op2", "new"))
    history.commits("v0001", 105.0, served_until, history.now + 4)
    history.records(finished("op2", Outcome.FELL_BACK))
    assert history.gap_s("op2") == pytest.approx(4.5)
