"""Reading a checkpoint directory without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.checkpoint_files import QUERY_ID, Tree, state_id
from streamkeeper.checkpoints.layout import (
    find_checkpoints,
    last_committed,
    last_planned,
    open_batch,
    query_id,
    read_commit,
)
from streamkeeper.errors import CheckpointDamaged
from tests.checkpoints.tree_kinds import at

pytestmark = pytest.mark.usefixtures("kind_of_tree")


def test_batches_are_counted_by_number_and_not_by_name(tmp_path: Path) -> None:
    """The newest batch is found by number, so batch 10 is newer than batch 9, and checksums and temporary files do not
    count as batches.
    """
    tree = Tree(tmp_path, "hdfs", batches=11)
    assert (last_committed(at(tmp_path)), last_planned(at(tmp_path)), open_batch(at(tmp_path))) == (10, 10, None)
    tree.plan(11)
    assert (last_committed(at(tmp_path)), last_planned(at(tmp_path)), open_batch(at(tmp_path))) == (10, 11, 11)


def test_an_empty_or_absent_checkpoint_has_no_batch(tmp_path: Path) -> None:
    """An empty or missing checkpoint has no committed, planned or open batch."""
    assert last_committed(at(tmp_path / "none")) is None
    assert (last_planned(at(tmp_path)), open_batch(at(tmp_path))) == (None, None)


def test_a_first_batch_that_was_never_committed_is_open(tmp_path: Path) -> None:
    """Batch 0 is open if it is planned and nothing was ever committed."""
    tree = Tree(tmp_path, "hdfs", batches=0)
    tree.plan(0)
    assert open_batch(at(tmp_path)) == 0


def test_the_query_id_is_read(tmp_path: Path) -> None:
    """The query id that Spark uses is read from the metadata."""
    Tree(tmp_path, "hdfs", batches=3)
    assert query_id(at(tmp_path)) == QUERY_ID


def test_state_file_ids_are_read_from_the_commit(tmp_path: Path) -> None:
    """A commit of format 2 contains the ids in the names of its state files; a commit of the older format has none."""
    Tree(tmp_path / "two", "format-2", batches=2)
    Tree(tmp_path / "one", "hdfs", batches=2)
    ids = [frozenset({state_id(partition, 2)}) for partition in (0, 1)]
    assert read_commit(at(tmp_path / "two"), 1).state_ids == {"0": tuple(ids)}
    assert read_commit(at(tmp_path / "one"), 1).state_ids == {}


@pytest.mark.parametrize("text", ["", "{}", "[]", "garbage"])
def test_a_damaged_query_id_is_named(tmp_path: Path, text: str) -> None:
    """Metadata without a valid query id is reported as damage with the name of the file."""
    (tmp_path / "metadata").write_text(text)
    with pytest.raises(CheckpointDamaged, match="metadata"):
        query_id(at(tmp_path))


def test_job_checkpoints_are_found_per_query_at_their_highest_version(tmp_path: Path) -> None:
    """The checkpoints of a job are found as a directory per query or as its highest version number; directories that
    are no checkpoints are ignored.
    """
    Tree(tmp_path / "plain", "hdfs", batches=1)
    for version in ("v0002", "v9999", "v10000"):
        Tree(tmp_path / "sums" / version, "hdfs", batches=1)
    (tmp_path / "notes").mkdir()
    found = find_checkpoints(at(tmp_path))
    assert found == {"plain": "plain", "sums": "sums/v10000"}
    assert find_checkpoints(at(tmp_path / "sums")) == {"": "v10000"}
    assert find_checkpoints(at(tmp_path / "plain")) == {"": ""}
    assert (find_checkpoints(at(tmp_path / "notes")), find_checkpoints(at(tmp_path / "none"))) == ({}, {})


def test_a_checkpoint_that_lost_its_logs_is_still_taken_for_one(tmp_path: Path) -> None:
    """A checkpoint without its offset and commit logs is still found, so that the check can report what is missing."""
    Tree(tmp_path, "hdfs", batches=1)
    for name in ("offsets", "commits"):
        shutil.rmtree(tmp_path / name)
    assert find_checkpoints(at(tmp_path)) == {"": ""}
