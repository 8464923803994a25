"""How far a dual run is, from two directories that look like Spark's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.checkpoint_files import Tree
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus, QueryStatus
from streamkeeper.model.records.checkpoint_version import EpochState
from streamkeeper.operations.deploys.catching_up import estimate, how_far, last_written

EPOCH = EpochState(query="totals", output="o", epoch=3, instance="first", generation=2, version="v0001")
FOREIGN = [
    {"version": "v0002", "epoch": 3, "admitted": 6},
    {"version": "v0001", "epoch": 2, "admitted": 6},
    {"version": "v0001", "epoch": 3, "admitted": None},
]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A query that has read eight files in eight batches."""
    return Tree(tmp_path / "v0001", "stateless", batches=8).root


def test_what_is_missing_is_told_with_the_time_it_will_take(old: Path, tmp_path: Path) -> None:
    """Two of eight files in ten seconds: thirty more."""
    new = Tree(tmp_path / "v0002", "stateless", batches=2).root
    os.utime(new / "metadata", (1000, 1000))
    os.utime(new / "commits" / "1", (1010, 1010))
    reached = how_far(LocalTree(old), LocalTree(new))
    assert not reached.holds
    assert "2 of 8 files" in reached.text
    assert reached.text.endswith("about 30 s left")


def test_a_version_that_holds_everything_has_caught_up(old: Path, tmp_path: Path) -> None:
    """Also one that is ahead."""
    assert how_far(LocalTree(old), LocalTree(Tree(tmp_path / "v0002", "stateless", batches=9).root)).holds
    assert not how_far(LocalTree(old), LocalTree(tmp_path / "v0003")).holds


def test_what_a_killed_driver_had_planned_must_be_held_too(old: Path, tmp_path: Path) -> None:
    """It may be written without being committed; while that driver lives its commits are enough."""
    new = Tree(tmp_path / "v0002", "stateless", batches=7).root
    (old / "commits" / "7").unlink()
    assert how_far(LocalTree(old), LocalTree(new)).holds
    until = last_written(LocalTree(old), EPOCH, None)
    assert not how_far(LocalTree(old), LocalTree(new), until=until).holds
    assert how_far(LocalTree(old), LocalTree(Tree(tmp_path / "v0003", "stateless", batches=8).root), until=until).holds


def drained(**changes: object) -> DriverStatus:
    """The last word of the driver that owns EPOCH: drained, its gate having let batch 6 through."""
    told = QueryStatus(query="totals", version="v0001", epoch=3, committed=6, admitted=6)
    fields = {"instance": "first", "release": "r0001", "generation": 2, "state": DriverState.DRAINED}
    return DriverStatus(**{**fields, "beat": 1, "at": "", "queries": {"totals": told}, **changes})


def test_what_a_drained_driver_has_refused_to_write_need_not_be_held(old: Path, tmp_path: Path) -> None:
    """Its gate has let batch 6 through and was closed to batch 7, which it had planned."""
    (old / "commits" / "7").unlink()
    until = last_written(LocalTree(old), EPOCH, drained())
    assert until == 6
    assert how_far(LocalTree(old), LocalTree(Tree(tmp_path / "v0002", "stateless", batches=7).root), until=until).holds


@pytest.mark.parametrize(
    "status",
    [
        None,
        drained(state=DriverState.SERVING),
        drained(state=DriverState.DRAINING),
        drained(state=DriverState.FAILED),
        drained(instance="second"),
        drained(generation=1),
        drained(queries={}),
        *(drained(queries={"totals": QueryStatus(query="totals", **each)}) for each in FOREIGN),
    ],
)
def test_the_word_of_nobody_but_the_drained_owner_is_taken(old: Path, status: DriverStatus | None) -> None:
    """One that lives or was killed, another one, an earlier generation, another version, epoch, or one that wrote none:
    what was planned counts.
    """
    (old / "commits" / "7").unlink()
    assert last_written(LocalTree(old), EPOCH, status) == 7


def test_without_an_epoch_what_was_planned_counts(old: Path) -> None:
    """Nobody is known who could say more."""
    assert last_written(LocalTree(old), None, drained()) == 7


@pytest.mark.parametrize(("memory", "takes"), [("1g", "1.5 GiB"), ("512m", "1.0 GiB"), ("4096", "4.5 GiB")])
def test_a_rebuild_says_what_it_reads_and_what_it_takes(old: Path, memory: str, takes: str) -> None:
    """Before it starts: the files, and the room for a second driver."""
    told = estimate(LocalTree(old), {"spark.driver.memory": memory})
    assert told.startswith(f"reads 8 files again; a second driver needs about {takes}, ")
