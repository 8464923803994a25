"""Runs one job through every lifecycle operation with its tasks in the driver, with checkpoints on disk, on S3 and in
HDFS; real servers, every row once.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.remote_house import Remote, hand_off, live_a_life, opened

pytestmark = [pytest.mark.storage, pytest.mark.spark, pytest.mark.timeout(1500)]
ON_S3 = pytest.param("on_s3", marks=pytest.mark.s3)
IN_HDFS = pytest.param("in_hdfs", marks=pytest.mark.hdfs)


@pytest.mark.parametrize("checkpoints", ["on_disk", ON_S3, IN_HDFS], indirect=True)
def test_a_job_with_tasks_in_its_driver_passes_every_operation(tmp_path: Path, checkpoints: str) -> None:
    """A job passes through every operation from the first release to a restore and a handoff; a checkpoint
    URL never creates a local directory.
    """
    with opened(Remote(tmp_path, checkpoints)) as house:
        live_a_life(house)
        hand_off(house)
    assert (tmp_path / "cp").exists() == checkpoints.startswith("/")
    assert not [name for name in os.listdir(Path.cwd()) if name.endswith(":")]
