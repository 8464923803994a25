"""Jobs whose tasks run on a standalone cluster's executors, checkpoints on S3 or in HDFS, a table in PostgreSQL."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import psycopg
import pytest

from harness.hdfs_server import HdfsServer
from harness.spark_cluster import SparkCluster, spark_cluster
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.model.recovery import Cause, RecoveryAction
from streamkeeper.model.request import Strategy
from streamkeeper.model.ways import Way
from tests.integration.remote_house import Remote
from tests.integration.test_recovery import JOB
from tests.servers import skip_without_s3a

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(900)]
USER = "streams"
_NAME_OF_ITS_OWN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    """A master and two workers."""
    with spark_cluster(Path(tempfile.mkdtemp(prefix="streamkeeper-cluster-"))) as running:
        yield running


class Spread(Remote):
    """A house whose executors are a cluster's, and whose table is in PostgreSQL."""

    conf: ClassVar[dict[str, str]] = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}

    def __init__(self, root: Path, checkpoints: str, master: str, server: str) -> None:
        super().__init__(root, checkpoints, master=master)
        self._server = server

    @property
    def database(self) -> str:
        return self._server.replace("postgresql://", "postgresql+psycopg://")

    def totals(self) -> dict[str, tuple[int, int]]:
        with psycopg.connect(self._server) as connection:
            return {row[0]: row[1:] for row in connection.execute("SELECT customer, sales, total FROM sales_totals")}


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


@pytest.fixture(
    params=[
        pytest.param("on_s3", marks=pytest.mark.s3),
        pytest.param("in_hdfs", marks=[pytest.mark.hdfs, pytest.mark.storage]),
    ]
)
def checkpoints(request: pytest.FixtureRequest) -> str:
    where: str = request.getfixturevalue(request.param)
    return where


@pytest.fixture
def house(
    tmp_path: Path, checkpoints: str, postgres_server: str, cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Spread]:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        name = f"t{os.urandom(4).hex()}"
        connection.execute(f"CREATE DATABASE {name}")
    database = postgres_server.replace("/postgres", f"/{name}")
    house = Spread(tmp_path, checkpoints, cluster.master, database)
    try:
        house.add(("a", 1), ("b", 2))
        yield house
    finally:
        house.close()


def shared_names(checkpoint: Tree) -> list[str]:
    """State files that another attempt at the same batch would name alike; the driver writes what describes them."""
    state = [path for path in checkpoint.fresh().look().files if path.startswith("state/") and "_metadata/" not in path]
    assert state
    return [path for path in state if not _NAME_OF_ITS_OWN.search(path)]


def test_a_life_on_executors_elsewhere(
    house: Spread, cluster: SparkCluster, checkpoints: str, request: pytest.FixtureRequest
) -> None:
    """First release, its executors killed, then frozen until another driver has taken over, resume, rebuild, rollback:
    the table holds every row once, and nothing is left of what drivers shared with executors."""
    assert house.next("first", trigger="200 milliseconds") == (Way.START, "v0001")
    house.settle()
    assert cluster.strike("kill") > 0
    house.add(("a", 3))
    house.settle()
    assert cluster.strike("suspend") > 0
    try:
        house.add(("c", 4))
        house.kill()
        assert house.look().cause is Cause.DRIVER_KILLED
        house.recover("again", RecoveryAction.RESTART)
        house.settle()
    finally:
        cluster.strike("resume")
    house.add(("c", 5))
    house.settle()
    assert house.next("resume", trigger="300 milliseconds") == (Way.RESUME, "v0001")
    house.add(("d", 6))
    house.settle()
    assert house.next("rebuild", trigger="200 milliseconds", strategy=Strategy.REBUILD) == (Way.REBUILD, "v0002")
    house.add(("d", 7))
    house.settle()
    house.roll_back()
    house.add(("e", 8))
    house.settle()
    assert house.serves()
    assert shared_names(house.checkpoint) == []
    house.must("prune", JOB)
    # In HDFS an empty folder stays as long as its driver's records do.
    versions = house.site.journal(JOB, "test").state().versions.values()
    kept = {version.claimed_by for query in versions for version in query}
    assert {*house.site.checkpoints.folders(".scratch")} <= kept
    assert not house.site.checkpoints.fresh().names(".scratch") or checkpoints.startswith("hdfs:")
    if checkpoints.startswith("hdfs:"):
        # Executors write as their driver's user, without a variable or a file of Hadoop's on their machines.
        hdfs_server: HdfsServer = request.getfixturevalue("hdfs_server")
        assert set(hdfs_server.owners(checkpoints)) == {USER}
