"""Tests of who may claim an epoch, decided by the output's fence, the claims beside the checkpoint, and the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamkeeper.authoring.definition import Query
from streamkeeper.checkpoints.claims import claims_beside, leave_claim
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.epoch import claim_epoch, open_writer
from streamkeeper.driver.newest_claims import see_claims
from streamkeeper.errors import Fenced, JournalOutdated
from streamkeeper.model.records.epoch_claim import EpochClaim
from streamkeeper.model.records.journal_records import (
    CheckpointVersionCreated,
    InstanceAppointed,
    InstancePlanned,
    Role,
)
from streamkeeper.sinks.contract import Sink, SinkContext
from streamkeeper.sinks.file import FileSink
from streamkeeper.sinks.table import TableSink
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore

JOB, NAME, MINE = "sales", "totals", "mine"


def sink_of(kind: str, root: Path) -> Sink:
    if kind == "file":
        return FileSink(str(root / "out"))
    return TableSink(f"sqlite:///{root}/warehouse.db", table="totals", key=("customer",))


class Place:
    """A query whose journal appoints an instance in v0001, and whose output may have been claimed under a newer
    epoch.
    """

    def __init__(self, root: Path, kind: str) -> None:
        df: Any = None
        self.query = Query(NAME, df, sink=sink_of(kind, root))
        self.line = DriverChannel(CountingStore(LocalStore(root / "store")), JOB, "old", 1)
        self.checkpoint = LocalTree(root / "cp" / JOB / NAME / "v0001")
        created = CheckpointVersionCreated(query=NAME, version="v0001", release="r", origin="", state_format="")
        planned = InstancePlanned(operation="op", instance="old", release="r", role=Role.CANDIDATE)
        for record in (created, planned, InstanceAppointed(operation="op", instance="old")):
            self.line.append(lambda _, record=record: record)  # type: ignore[misc]

    def fence(self, epoch: int, version: str, installation: str = MINE) -> None:
        """Raise the fence of the output, as a driver of a newer journal would."""
        context = {"job": JOB, "query": NAME, "version": version, "epoch": epoch, "installation": installation}
        writer = self.query.sink.open(SinkContext(**context))
        writer.raise_fence()
        writer.close()

    def see(self) -> tuple[object, ...]:
        return see_claims(JOB, self.query, self.checkpoint, installation=MINE)

    def take_over(self, generation: int, *, looking: bool = True) -> int:
        """Return the epoch under which the old driver may write."""
        seen = see_claims(JOB, self.query, self.checkpoint, installation=MINE) if looking else ()
        history = self.line.look().output_history(NAME, self.checkpoint.name)
        claim, state = claim_epoch(
            self.line, JOB, "old", generation, self.query, self.checkpoint, installation=MINE, seen=seen
        )
        open_writer(self.query, claim, self.checkpoint, state, history).close()
        return claim.epoch


@pytest.mark.parametrize("kind", ["file", "table"])
def test_an_output_under_a_newer_epoch_refuses_every_attempt(tmp_path: Path, kind: str) -> None:
    """An output under an epoch that the journal does not record refuses every takeover, and nothing is claimed, so that
    repeated attempts do not reach its epoch.
    """
    place = Place(tmp_path, kind)
    assert place.see() == ()
    place.fence(2, "v0002")
    for generation in (1, 2, 3):
        with pytest.raises(JournalOutdated, match="under epoch 2, and the journal records no epoch"):
            place.take_over(generation)
    assert place.line.look().epochs == {}


def test_an_older_generation_claims_nothing_over_a_newer_one(tmp_path: Path) -> None:
    """A driver that hung while its supervisor started the next generation is fenced and claims nothing. Negative
    control: a third generation claims the next epoch.
    """
    place = Place(tmp_path, "file")
    place.take_over(2)
    with pytest.raises(Fenced, match="generation 2 of old has taken over from generation 1"):
        place.take_over(1)
    assert place.line.look().epochs[NAME].generation == 2
    assert place.take_over(3) == 2


@pytest.mark.parametrize("kind", ["file", "table"])
def test_repeated_attempts_pass_the_fence_without_the_claim_check(tmp_path: Path, kind: str) -> None:
    """Negative control: without the look at the newest claims, each attempt claims one more epoch until the output
    accepts the old driver.
    """
    place = Place(tmp_path, kind)
    place.fence(2, "v0002")
    with pytest.raises(Fenced):
        place.take_over(1, looking=False)
    epochs = []
    for generation in (2, 3):
        try:
            epochs.append(place.take_over(generation, looking=False))
        except Fenced:
            continue
    assert epochs[-1] == 3


def test_an_output_that_names_an_unrecorded_version_is_refused_as_newer(tmp_path: Path) -> None:
    """An output that names a version which the journal does not record is refused as newer, even if the epochs are
    equal.
    """
    place = Place(tmp_path, "file")
    place.fence(1, "v0002")
    with pytest.raises(Fenced):
        place.take_over(1, looking=False)
    with pytest.raises(JournalOutdated, match="belongs to checkpoint v0002, which the journal does not record"):
        place.take_over(2)


@pytest.mark.parametrize("kind", ["file", "table"])
def test_an_output_of_another_installation_is_no_newer_claim(tmp_path: Path, kind: str) -> None:
    """An output of another installation does not count as a newer claim of this journal; its fence refuses it
    instead.
    """
    place = Place(tmp_path, kind)
    place.fence(7, "v0001", installation="another")
    assert place.see() == ()


def test_a_checkpoint_that_another_installation_claimed_is_refused(tmp_path: Path) -> None:
    """A checkpoint whose newest claim beside it is by another installation is refused, as with a new store beside old
    checkpoints.
    """
    place = Place(tmp_path, "file")
    theirs = EpochClaim(epoch=1, version="v0001", instance="x", generation=1, installation="another")
    leave_claim(claims_beside(place.checkpoint), theirs)
    with pytest.raises(JournalOutdated, match="was last claimed by the installation another"):
        place.see()
