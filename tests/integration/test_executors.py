"""Jobs whose tasks run on a standalone cluster's executors, with checkpoints on S3 and a table in PostgreSQL."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness.spark_cluster import SparkCluster, spark_cluster
from streamkeeper.model.journal import Outcome
from streamkeeper.model.recovery import Cause, RecoveryAction
from streamkeeper.model.release import ParamValue
from streamkeeper.model.request import DeployRequest, Strategy
from streamkeeper.model.ways import Way
from streamkeeper.operations.deploy import Deploy
from tests.integration.test_recovery import JOB, QUERY, House

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.postgres, pytest.mark.timeout(900)]
SMALL = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    """A master and two workers."""
    with spark_cluster(Path(tempfile.mkdtemp(prefix="streamkeeper-cluster-"))) as running:
        yield running


class Spread(House):
    """A house whose executors are a cluster's."""

    def __init__(self, root: Path, checkpoints: str, master: str, database: str) -> None:
        super().__init__(root, checkpoints, master=master)
        self._database = database

    def next(
        self, operation: str, *, trigger: str = "200 milliseconds", strategy: Strategy = Strategy.AUTO
    ) -> tuple[Way, str]:
        """Deploy: the way it went, and the checkpoint version that serves then."""
        url = self._database.replace("postgresql://", "postgresql+psycopg://")
        params: dict[str, ParamValue] = {"input": str(self.input), "warehouse": url, "trigger": trigger}
        request = DeployRequest(
            job=JOB,
            params=params,
            conf=SMALL,
            strategy=strategy,
            probation_batches=1,
            first_commit_s=120.0,
            probation_s=120.0,
        )
        deploy = Deploy.open(self.site, operation, request)
        done = deploy.run()
        assert done.outcome is Outcome.SUCCEEDED, done.sentence
        return deploy.state.operations[operation].ways[QUERY].way, self.checkpoint.name

    def totals(self) -> dict[str, tuple[int, int]]:
        with psycopg.connect(self._database) as connection:
            return {row[0]: row[1:] for row in connection.execute("SELECT customer, sales, total FROM sales_totals")}


@pytest.fixture
def house(
    tmp_path: Path, s3_url: str, postgres_server: str, cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Spread]:
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
    assert house.next("first") == (Way.START, "v0001")
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
    told = house.command("rollback", JOB, "--reason", "the totals are off", "--probation-batches", "1")
    assert told.returncode == 0, told.stdout + told.stderr
    house.add(("e", 8))
    house.settle()
    assert house.serves()
    told = house.command("prune", JOB)
    assert told.returncode == 0, told.stdout + told.stderr
    assert house.site.checkpoints.folders(".scratch") == []
