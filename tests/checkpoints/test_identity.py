"""Whether what lies in a place is the checkpoint that the records know."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checkpoint_files import QUERY_ID, Tree
from streamkeeper.checkpoints.identity import find_loss, must_be_there
from streamkeeper.errors import CheckpointLost
from streamkeeper.model.records.known_checkpoint import KnownCheckpoint
from tests.checkpoints.damaging import LOSSES, lose
from tests.checkpoints.tree_kinds import at

pytestmark = pytest.mark.usefixtures("kind_of_tree")
KNOWN = KnownCheckpoint(series="sales/totals", version="v0001", query_id=QUERY_ID, committed=7, begun=True)


@pytest.mark.parametrize("how", LOSSES)
def test_what_is_not_what_was_recorded_is_a_loss(tmp_path: Path, how: str) -> None:
    """Gone, emptied, another query's, or behind what was committed."""
    Tree(tmp_path / "v0001", "hdfs", batches=8)
    assert find_loss(at(tmp_path / "v0001"), KNOWN) == ""
    lose(tmp_path / "v0001", how)
    with pytest.raises(CheckpointLost, match="is not what was recorded"):
        must_be_there(at(tmp_path / "v0001"), KNOWN)


def test_a_newest_commit_that_a_crash_took_is_no_loss(tmp_path: Path) -> None:
    """Its plan is there, and the batch runs again under its own id."""
    Tree(tmp_path, "hdfs", batches=8)
    (tmp_path / "commits" / "7").unlink()
    assert find_loss(at(tmp_path), KNOWN) == ""
    (tmp_path / "commits" / "6").unlink()
    assert find_loss(at(tmp_path), KNOWN).endswith("is at batch 5, but batch 7 was committed")


def test_a_newest_commit_without_its_plan_is_a_loss(tmp_path: Path) -> None:
    """Such a commit remains if an older copy was put back beneath a running driver; the message says what is wrong."""
    Tree(tmp_path, "hdfs", batches=8)
    (tmp_path / "offsets" / "7").unlink()
    told = find_loss(at(tmp_path), KNOWN)
    assert told.endswith("has the commit of batch 7, but its newest plan is of batch 6")


def test_half_a_version_that_was_never_begun_is_no_loss(tmp_path: Path) -> None:
    """What a dead writer has left without metadata is made whole by the next one."""
    known = KnownCheckpoint(series="sales/totals", version="v0002", query_id=QUERY_ID)
    at(tmp_path / "v0002").create("offsets/7", [b"v1"])
    assert find_loss(at(tmp_path / "v0002"), known) == ""
