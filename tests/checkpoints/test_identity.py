"""Whether the files in a place are the checkpoint that the records describe."""

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
def test_a_checkpoint_that_does_not_match_its_record_counts_as_lost(tmp_path: Path, how: str) -> None:
    """A checkpoint that is missing, empty, of a different query or behind its recorded commit counts as lost."""
    Tree(tmp_path / "v0001", "hdfs", batches=8)
    assert find_loss(at(tmp_path / "v0001"), KNOWN) == ""
    lose(tmp_path / "v0001", how)
    with pytest.raises(CheckpointLost, match="is not what was recorded"):
        must_be_there(at(tmp_path / "v0001"), KNOWN)


def test_one_missing_newest_commit_with_a_plan_is_no_loss(tmp_path: Path) -> None:
    """A missing newest commit whose plan exists is no loss, because the batch reruns under its own id; two missing
    commits are a loss.
    """
    Tree(tmp_path, "hdfs", batches=8)
    (tmp_path / "commits" / "7").unlink()
    assert find_loss(at(tmp_path), KNOWN) == ""
    (tmp_path / "commits" / "6").unlink()
    assert find_loss(at(tmp_path), KNOWN).endswith("is at batch 5, but batch 7 was committed")


def test_a_newest_commit_without_its_plan_is_a_loss(tmp_path: Path) -> None:
    """A newest commit without its plan, as remains if an older copy was restored under a running driver, is reported as
    a loss with the two batch numbers.
    """
    Tree(tmp_path, "hdfs", batches=8)
    (tmp_path / "offsets" / "7").unlink()
    told = find_loss(at(tmp_path), KNOWN)
    assert told.endswith("has the commit of batch 7, but its newest plan is of batch 6")


def test_a_partial_version_that_was_never_started_is_no_loss(tmp_path: Path) -> None:
    """A partial version without metadata that was never started is no loss, because the next writer completes it."""
    known = KnownCheckpoint(series="sales/totals", version="v0002", query_id=QUERY_ID)
    at(tmp_path / "v0002").create("offsets/7", [b"v1"])
    assert find_loss(at(tmp_path / "v0002"), known) == ""
