"""Runs one job through every lifecycle operation with its tasks on a cluster's executors; real servers, every row once.

The unsupported combination, executors with checkpoints in a directory, is refused by name.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.hdfs_server import HdfsServer
from harness.postgres_server import new_database
from harness.spark_cluster import SparkCluster, spark_cluster
from tests.integration.remote_house import (
    Spread,
    Stamped,
    hand_off,
    live_a_life,
    opened,
    outlive_executors,
    told_at_dry_run,
)
from tests.integration.test_lives import IN_HDFS, ON_S3
from tests.servers import HDFS_USER

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    """A Spark cluster with a master and two workers."""
    with spark_cluster(Path(tempfile.mkdtemp(prefix="streamkeeper-cluster-"))) as running:
        yield running


@pytest.mark.storage
@pytest.mark.postgres
@pytest.mark.parametrize("checkpoints", [ON_S3, IN_HDFS], indirect=True)
def test_a_job_on_cluster_executors_passes_every_operation(
    tmp_path: Path,
    cluster: SparkCluster,
    checkpoints: str,
    postgres_server: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A job whose executors are first killed and then frozen passes through every operation; at the end none of the
    scratch files that drivers shared with their executors is left.
    """
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    database = new_database(postgres_server, f"t{os.urandom(4).hex()}")
    with opened(Spread(tmp_path, checkpoints, cluster.master, database)) as house:
        outlive_executors(house, cluster)
        live_a_life(house)
        hand_off(house)
        house.must("prune")
        # In HDFS an empty folder stays as long as its driver's records do.
        versions = [
            each for job in house.jobs for each in house.installation.journal(job, "test").state().versions.values()
        ]
        kept = {version.claimed_by for query in versions for version in query}
        assert {*house.installation.checkpoints.folders(".scratch")} <= kept
        assert not house.installation.checkpoints.fresh().names(".scratch") or checkpoints.startswith("hdfs:")
    if checkpoints.startswith("hdfs:"):
        # Executors write as their driver's user, without a variable or a file of Hadoop's on their machines.
        hdfs_server: HdfsServer = request.getfixturevalue("hdfs_server")
        assert set(hdfs_server.owners(checkpoints)) == {HDFS_USER}


@pytest.mark.storage
@pytest.mark.postgres
@pytest.mark.parametrize("checkpoints", [ON_S3], indirect=True)
def test_executors_get_the_environment_that_their_release_was_made_with(
    tmp_path: Path, cluster: SparkCluster, checkpoints: str, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors use the environment archive of their release, even when they start after the archive was replaced in
    place; a new archive makes a new release, which can be rolled back. Negative control: without an archive the job's
    code fails on the executors.
    """
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    database = new_database(postgres_server, f"t{os.urandom(4).hex()}")
    house = Stamped(tmp_path, checkpoints, cluster.master, database)
    try:
        house.add(("a", 1))
        with pytest.raises(AssertionError, match="only_on_executors"):
            house.release("bare")
        house.pack("one")
        house.release("first")
        assert house.words_of("f1") == ["one"]
        house.pack("two")
        assert cluster.strike("kill") > 0
        house.add(("a", 2))
        assert house.words_of("f2") == ["one"]
        house.release("second")
        house.add(("a", 3))
        assert house.words_of("f3") == ["two"]
        house.must("rollback", house.jobs[0], "--reason", "the word is wrong", "--probation-batches", "0")
        house.add(("a", 4))
        assert house.words_of("f4") == ["one"]
    finally:
        house.close()


def test_executors_are_refused_with_checkpoints_in_a_directory(tmp_path: Path) -> None:
    """A dry run refuses executors with checkpoints in a directory in a message that names both settings, before
    anything is recorded.
    """
    told = told_at_dry_run(tmp_path, str(tmp_path / "cp"), {"STREAMKEEPER_MASTER": "spark://127.0.0.1:7077"})
    assert "STREAMKEEPER_MASTER=spark://127.0.0.1:7077" in told
    assert "STREAMKEEPER_CHECKPOINTS" in told
