"""Jobs whose tasks run on a standalone cluster's executors, with checkpoints on S3 and a table in PostgreSQL."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import psycopg
import pytest

from harness.spark_cluster import SparkCluster, spark_cluster
from streamkeeper.model.recovery import Cause, RecoveryAction
from streamkeeper.model.request import Strategy
from streamkeeper.model.ways import Way
from tests.integration.remote_house import Remote
from tests.integration.test_recovery import JOB
from tests.servers import skip_without_s3a

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.postgres, pytest.mark.timeout(900)]


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
def house(
    tmp_path: Path, s3_url: str, postgres_server: str, cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Spread]:
    skip_without_s3a()
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        name = f"t{os.urandom(4).hex()}"
        connection.execute(f"CREATE DATABASE {name}")
    database = postgres_server.replace("/postgres", f"/{name}")
    house = Spread(tmp_path, f"{s3_url.replace('s3://', 's3a://')}/checkpoints", cluster.master, database)
    try:
        house.add(("a", 1), ("b", 2))
        yield house
    finally:
        house.close()


def test_a_life_on_executors_elsewhere(house: Spread, cluster: SparkCluster) -> None:
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
    house.must("prune", JOB)
    assert house.site.checkpoints.folders(".scratch") == []
