"""Jobs whose checkpoints lie in HDFS: real drivers, a real NameNode and DataNode, and every verb."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.remote_house import live_a_life, remote_house

pytestmark = [pytest.mark.spark, pytest.mark.hdfs, pytest.mark.timeout(900)]


@pytest.fixture
def checkpoints(hdfs_url: str) -> str:
    return f"{hdfs_url}/checkpoints"


def test_a_life_on_hdfs(tmp_path: Path, checkpoints: str) -> None:
    """From the first release to a restore and a prune, every row once, although its plain paths are local ones."""
    with remote_house(tmp_path, checkpoints) as house:
        live_a_life(house)
