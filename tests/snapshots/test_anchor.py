"""Tests finding the committed batch of a snapshot while Spark deletes its logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import CheckpointChanged
from streamkeeper.snapshots.anchor import find_anchor
from tests.snapshots.series import a_checkpoint


class _Outrun(LocalTree):
    """A checkpoint in which the plan of the last batch is deleted before it is read, this many times."""

    def __init__(self, root: Path, times: int) -> None:
        super().__init__(root)
        self.left = times

    def read(self, path: str) -> bytes:
        if path.startswith("offsets/") and self.left:
            self.left -= 1
            raise FileNotFoundError(path)
        return super().read(path)


def test_the_committed_batch_is_found_after_four_attempts_meet_a_deleted_log(tmp_path: Path) -> None:
    """The committed batch is found even if four attempts meet a deleted log."""
    a_checkpoint(tmp_path / "live")
    assert find_anchor(_Outrun(tmp_path / "live", 4)).batch == 7


def test_a_deleted_log_in_the_fifth_attempt_raises_checkpoint_changed(tmp_path: Path) -> None:
    """If the fifth attempt also finds a deleted log, ``CheckpointChanged`` is raised, because a snapshot needs the
    batch's plan.
    """
    a_checkpoint(tmp_path / "live")
    with pytest.raises(CheckpointChanged, match="faster than they can be read"):
        find_anchor(_Outrun(tmp_path / "live", 5))
