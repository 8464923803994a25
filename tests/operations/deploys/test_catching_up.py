"""The progress of a dual run, computed from two directories laid out like Spark checkpoints."""

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
    """The checkpoint of a query that has read eight files in eight batches."""
    return Tree(tmp_path / "v0001", "stateless", batches=8).root


def test_progress_is_reported_with_the_remaining_time(old: Path, tmp_path: Path) -> None:
    """The progress is reported with the remaining time: two of eight files in ten seconds leave about 30 s."""
    new = Tree(tmp_path / "v0002", "stateless", batches=2).root
    os.utime(new / "metadata", (1000, 1000))
    os.utime(new / "commits" / "1", (1010, 1010))
    reached = how_far(LocalTree(old), LocalTree(new))
    assert not reached.holds
    assert "2 of 8 files" in reached.text
    assert reached.text.endswith("about 30 s left")


def test_a_version_that_holds_everything_has_caught_up(old: Path, tmp_path: Path) -> None:
    """A version that has read everything, or more than the old one, has caught up; an empty version has not."""
    assert how_far(LocalTree(old), LocalTree(Tree(tmp_path / "v0002", "stateless", batches=9).root)).holds
    assert not how_far(LocalTree(old), LocalTree(tmp_path / "v0003")).holds


def test_the_planned_batch_of_a_killed_driver_must_be_covered(old: Path, tmp_path: Path) -> None:
    """After a driver was killed, its planned batch must be covered too, because it may be written without a commit;
    while the driver runs, its commits are enough.
    """
    new = Tree(tmp_path / "v0002", "stateless", batches=7).root
    (old / "commits" / "7").unlink()
    assert how_far(LocalTree(old), LocalTree(new)).holds
    until = last_written(LocalTree(old), EPOCH, None)
    assert not how_far(LocalTree(old), LocalTree(new), until=until).holds
    assert how_far(LocalTree(old), LocalTree(Tree(tmp_path / "v0003", "stateless", batches=8).root), until=until).holds


def drained(**changes: object) -> DriverStatus:
    """Return the last status of the driver that owns EPOCH: drained, with batch 6 as the last one admitted by its
    gate.
    """
    told = QueryStatus(query="totals", version="v0001", epoch=3, committed=6, admitted=6)
    fields = {"instance": "first", "release": "r0001", "generation": 2, "state": DriverState.DRAINED}
    return DriverStatus(**{**fields, "beat": 1, "at": "", "queries": {"totals": told}, **changes})


def test_a_batch_refused_by_a_drained_drivers_gate_need_not_be_covered(old: Path, tmp_path: Path) -> None:
    """Batch 7, which a drained driver had planned but its gate did not admit, need not be covered; batch 6 is
    enough.
    """
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
def test_only_the_drained_owners_status_limits_the_last_written_batch(old: Path, status: DriverStatus | None) -> None:
    """Only the status of the drained owner limits the last written batch: a running, draining or failed driver, a
    different instance, generation, version or epoch, or a status without an admitted batch leaves the planned batch 7.
    """
    (old / "commits" / "7").unlink()
    assert last_written(LocalTree(old), EPOCH, status) == 7


def test_without_an_epoch_the_planned_batch_counts_as_written(old: Path) -> None:
    """Without an epoch no owner is known, so the planned batch counts as written."""
    assert last_written(LocalTree(old), None, drained()) == 7


@pytest.mark.parametrize(("memory", "takes"), [("1g", "1.5 GiB"), ("512m", "1.0 GiB"), ("4096", "4.5 GiB")])
def test_a_rebuild_estimate_states_the_files_to_read_and_the_memory(old: Path, memory: str, takes: str) -> None:
    """The estimate before a rebuild states the number of files to read and the memory that the second driver needs."""
    told = estimate(LocalTree(old), {"spark.driver.memory": memory})
    assert told.startswith(f"reads 8 files again; a second driver needs about {takes}, ")
