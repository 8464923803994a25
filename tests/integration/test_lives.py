"""One life, wherever checkpoints lie and tasks run: real drivers, real servers, every verb, and every row once.

What is not offered is refused by name: a cluster's executors with checkpoints in a directory.
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
from tests.integration.remote_house import Remote, Spread, live_a_life, opened, outlive_executors, told_at_dry_run
from tests.servers import skip_without_s3a

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]
USER = "streams"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    """A master and two workers."""
    with spark_cluster(Path(tempfile.mkdtemp(prefix="streamkeeper-cluster-"))) as running:
        yield running


@pytest.fixture
def on_disk(tmp_path: Path) -> str:
    return str(tmp_path / "cp")


@pytest.fixture
def on_s3(s3_url: str) -> str:
    skip_without_s3a()
    return f"{s3_url.replace('s3://', 's3a://')}/checkpoints"


@pytest.fixture
def in_hdfs(hdfs_url: str, hdfs_server: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A directory of a user who is not the one that all processes run as."""
    hdfs_server.give(f"{hdfs_url}/checkpoints", USER)
    monkeypatch.setenv("HADOOP_USER_NAME", USER)
    return f"{hdfs_url}/checkpoints"


ON_DISK = pytest.param("on_disk", marks=pytest.mark.storage)
ON_S3 = pytest.param("on_s3", marks=pytest.mark.s3)
IN_HDFS = pytest.param("in_hdfs", marks=[pytest.mark.hdfs, pytest.mark.storage])


@pytest.fixture
def checkpoints(request: pytest.FixtureRequest) -> str:
    where: str = request.getfixturevalue(request.param)
    return where


@pytest.mark.parametrize("checkpoints", [ON_DISK, ON_S3, IN_HDFS], indirect=True)
def test_a_life_with_the_tasks_in_its_drivers(tmp_path: Path, checkpoints: str) -> None:
    """From the first release to a handoff; nothing is made of a URL on the disk."""
    with opened(Remote(tmp_path, checkpoints)) as house:
        live_a_life(house)
    assert (tmp_path / "cp").exists() == checkpoints.startswith("/")
    assert not [name for name in os.listdir(Path.cwd()) if name.endswith(":")]


@pytest.mark.postgres
@pytest.mark.parametrize("checkpoints", [ON_S3, IN_HDFS], indirect=True)
def test_a_life_on_executors_elsewhere(
    tmp_path: Path,
    cluster: SparkCluster,
    checkpoints: str,
    postgres_server: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Executors die and freeze first; at the end nothing is left of what drivers shared with them."""
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    database = new_database(postgres_server, f"t{os.urandom(4).hex()}")
    with opened(Spread(tmp_path, checkpoints, cluster.master, database)) as house:
        outlive_executors(house, cluster)
        live_a_life(house)
        house.must("prune")
        # In HDFS an empty folder stays as long as its driver's records do.
        versions = [each for job in house.jobs for each in house.site.journal(job, "test").state().versions.values()]
        kept = {version.claimed_by for query in versions for version in query}
        assert {*house.site.checkpoints.folders(".scratch")} <= kept
        assert not house.site.checkpoints.fresh().names(".scratch") or checkpoints.startswith("hdfs:")
    if checkpoints.startswith("hdfs:"):
        # Executors write as their driver's user, without a variable or a file of Hadoop's on their machines.
        hdfs_server: HdfsServer = request.getfixturevalue("hdfs_server")
        assert set(hdfs_server.owners(checkpoints)) == {USER}


def test_executors_are_refused_with_checkpoints_in_a_directory(tmp_path: Path) -> None:
    """In a line that names both settings and the way out, before anything is recorded."""
    told = told_at_dry_run(tmp_path, str(tmp_path / "cp"), {"STREAMKEEPER_MASTER": "spark://127.0.0.1:7077"})
    assert "STREAMKEEPER_MASTER=spark://127.0.0.1:7077" in told
    assert "STREAMKEEPER_CHECKPOINTS" in told
