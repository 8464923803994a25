"""Tests without Spark of a handoff between checkpoint versions on disk: what the parent version must still hold, and a
version that was never created.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.checkpoint_files import QUERY_ID
from streamkeeper.checkpoints.layout import last_committed, last_planned
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.driver import handoff
from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.epoch import Claim, writer_of
from streamkeeper.driver.handoff import hand_over
from streamkeeper.errors import CheckpointLost
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.journal_records import (
    Assessed,
    CheckpointVersionCreated,
    EpochClaimed,
    InstanceAppointed,
    InstancePlanned,
    OperationStarted,
    Role,
)
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.registry.journal import Journal
from streamkeeper.sinks.foreach import ForeachBatch
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore
from tests.checkpoints.damaging import LOSSES, lose
from tests.snapshots.series import a_checkpoint

QUERY: Any = SimpleNamespace(name="totals", sink=ForeachBatch(lambda batch, context: None), output_mode="append")
LAST = 7


class Place:
    """A query whose ``v0001`` has committed up to ``LAST``; each later version continues the previous one."""

    def __init__(self, root: Path, kind: str = "stateless") -> None:
        self.root = root / "cp"
        self.line = DriverChannel(CountingStore(LocalStore(root / "store")), "sales", "second", 1)
        self.journal = Journal(LocalStore(root / "store"), "sales", writer="test")
        a_checkpoint(self.directory("v0001"), kind)
        self.record(InstancePlanned(operation="op", instance="second", release="r0001", role=Role.CANDIDATE))
        self.record(InstanceAppointed(operation="op", instance="second"))
        for number in (1, 2, 3):
            self.record(
                CheckpointVersionCreated(
                    query="totals",
                    version=f"v000{number}",
                    release="r0001",
                    origin="test",
                    state_format="f",
                    root=str(self.root),
                    parent=f"v000{number - 1}" if number > 1 else "",
                    query_id=QUERY_ID if number == 1 else "",
                    committed=LAST if number == 1 else None,
                    operation=f"op{number}",
                )
            )

    def directory(self, version: str) -> Path:
        return self.root / "sales" / "totals" / version

    def record(self, record: Any) -> None:
        self.journal.append(lambda _: record)

    def give_state_up(self, number: int) -> None:
        """Record that the operation of a version accepted the loss of its state."""
        way = QueryTransition(
            way=Transition.HANDOFF, before=f"v000{number - 1}", version=f"v000{number}", state_given_up=True
        )
        self.record(OperationStarted(operation=f"op{number}", request=DeployRequest(job="sales"), steps=()))
        verdict = Verdict.SWITCH
        self.record(
            Assessed(
                operation=f"op{number}",
                verdict=verdict,
                reverse=verdict,
                sentence="",
                report="",
                transitions={"totals": way},
            )
        )

    def hand_over(self, version: str) -> None:
        epoch = EpochClaimed(query="totals", output="o", epoch=1, instance="second", generation=1, version=version)
        self.record(epoch)
        claim = Claim(
            job="sales", instance="second", generation=1, query="totals", version=version, output="o", epoch=1
        )
        state = self.line.look()
        hand_over(self.line, QUERY, claim, LocalTree(self.directory(version)), str(self.root), state)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("how", LOSSES)
def test_a_handoff_from_a_checkpoint_that_lost_records_is_refused(place: Place, how: str) -> None:
    """A handoff is refused if the parent's checkpoint has lost anything since it was recorded, and creates nothing."""
    lose(place.directory("v0001"), how)
    with pytest.raises(CheckpointLost, match="is not what was recorded"):
        place.hand_over("v0002")
    assert not place.directory("v0002").exists()
    assert place.line.look().version("totals", "v0002").batch is None


def test_a_version_deleted_after_its_handoff_is_not_recreated(place: Place) -> None:
    """A version that was handed over and deleted later is not created anew: it would hold less than before, and would
    take the place of a restored one.
    """
    place.hand_over("v0002")
    place.record(
        EpochClaimed(
            query="totals", output="o", epoch=2, instance="second", generation=2, version="v0002", committed=LAST + 5
        )
    )
    shutil.rmtree(place.directory("v0002"))
    with pytest.raises(CheckpointLost, match="v0002 is missing"):
        place.hand_over("v0003")
    assert not place.directory("v0002").exists()


def test_a_handoff_from_a_missing_checkpoint_creates_nothing_without_the_check(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the check of the parent, a handoff from a missing checkpoint raises no error and
    creates nothing, and Spark would start at batch 0.
    """
    lose(place.directory("v0001"), "missing")
    monkeypatch.setattr(handoff, "must_be_there", lambda *_: None)
    place.hand_over("v0002")
    assert not place.directory("v0002").exists()


def test_a_version_that_was_never_seeded_is_created_before_its_handoff(place: Place) -> None:
    """If a driver died before its version was seeded, the next handoff creates that version first and continues where
    the first version stopped.
    """
    place.hand_over("v0003")
    assert last_committed(LocalTree(place.directory("v0002"))) == LAST
    assert (
        last_committed(LocalTree(place.directory("v0003"))) == last_planned(LocalTree(place.directory("v0003"))) == LAST
    )
    state = place.line.look()
    assert [each.batch for each in state.versions["totals"]] == [None, LAST, LAST]
    assert [(each.version, each.last) for each in state.segments("totals", "v0003")] == [
        ("v0001", LAST),
        ("v0002", LAST),
        ("v0003", None),
    ]


def test_a_writer_knows_a_parent_that_never_committed_a_batch(tmp_path: Path) -> None:
    """The writer of a version whose parent ended before its first commit gets that parent in the lineage, because the
    output may have a part of its batch 0, but not in the segments that readers of files get.
    """
    place = Place(tmp_path)
    claim = Claim(job="sales", instance="second", generation=1, query="totals", version="v0002", output="o", epoch=1)
    query: Any = SimpleNamespace(
        name="totals", sink=SimpleNamespace(open=lambda context: context), output_mode="append", df=None
    )
    context: Any = writer_of(query, claim, place.line.look())
    assert context.lineage == (OutputSegment("v0001", -1), OutputSegment("v0002"))
    assert context.serving == (OutputSegment("v0002"),)


def test_a_recorded_but_uncreated_version_is_created_with_its_query_id(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version whose handoff was recorded but whose directory was never created is created with the recorded query
    id.
    """
    with monkeypatch.context() as patch:
        patch.setattr(handoff, "_seed", lambda *_: None)
        place.hand_over("v0002")
    identity = place.line.look().version("totals", "v0002").query_id
    place.hand_over("v0003")
    assert identity in (place.directory("v0002") / "metadata").read_text()
    assert last_committed(LocalTree(place.directory("v0003"))) == LAST


@pytest.mark.parametrize("made", [False, True])
def test_versions_that_give_up_state_start_where_the_last_batch_stopped(tmp_path: Path, made: bool) -> None:
    """If the state is given up in two successive versions without a batch in between, both start where the last batch
    stopped, whether or not the first one was created.
    """
    place = Place(tmp_path, "hdfs")
    place.give_state_up(2)
    place.give_state_up(3)
    if made:
        place.hand_over("v0002")
    place.hand_over("v0003")
    state = place.line.look()
    assert [(each.parent_batch, each.batch) for each in state.versions["totals"][1:]] == [(LAST, -1), (-1, -1)]
    for version in ("v0002", "v0003"):
        directory = place.directory(version)
        assert (last_planned(LocalTree(directory)), last_committed(LocalTree(directory))) == (None, None)
        assert read_seen(directory) == read_seen(place.directory("v0001"))


def read_seen(directory: Path) -> set[str]:
    """Return the files that the checkpoint's source records as read."""
    lines = [line for each in (directory / "sources/0").iterdir() for line in each.read_text().splitlines()[1:]]
    return {json.loads(line)["path"] for line in lines}
