"""Crashes during switches by real drivers, with executors of a real cluster and checkpoints in a real HDFS."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.on_hdfs import in_hdfs
from harness import hadoop_process, postgres_server

pytestmark = [pytest.mark.storage, pytest.mark.spark, pytest.mark.hdfs, pytest.mark.postgres, pytest.mark.timeout(900)]
KILLED = "switch/points:driver.claim.after"


def test_a_driver_killed_during_a_switch_loses_and_duplicates_no_row(tmp_path: Path) -> None:
    """A driver that is killed after claiming its checkpoint in HDFS loses and duplicates no row: the switch is
    completed after the crash.
    """
    if not hadoop_process.has_jars():
        pytest.skip("no HDFS jars (make connectors)")
    if postgres_server.find_programs() is None:
        pytest.skip("no PostgreSQL server programs (initdb)")
    with in_hdfs(tmp_path / "site") as stage:
        played = stage.play(KILLED)
        assert (played.damage, len(played.hits)) == ([], 1), played
        assert played.checkpoints.startswith("hdfs://")
        assert stage.bed.installation.checkpoints.folders("ledgers")
        assert not (stage.bed.home / "checkpoints").exists()
