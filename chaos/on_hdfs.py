"""Switches of a job whose tasks run on a standalone cluster, with checkpoints in HDFS and both tables in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from chaos.cases import CaseResult
from chaos.served_tables import ServedTablesStage
from chaos.switch_runs import JOBS
from chaos.switching import PATIENCE
from harness.bed import Bed, fresh_bed
from harness.remote_servers import hdfs_servers
from harness.spark_cluster import SparkCluster
from harness.variables import set_variables


class HdfsResult(CaseResult, frozen=True, kw_only=True):
    """The result of a case; ``checkpoints`` is the URL of the checkpoints, ``master`` that of the cluster whose
    executors ran the tasks.
    """

    checkpoints: str
    master: str


class HdfsStage(ServedTablesStage):
    """An installation with checkpoints in HDFS and executors on a cluster, which are killed and frozen as drivers
    are.
    """

    patience = (
        *PATIENCE,
        *("--conf", "spark.executor.memory=512m", "--conf", "spark.sql.shuffle.partitions=2"),
    )

    def __init__(self, bed: Bed, cluster: SparkCluster, database: str) -> None:
        super().__init__(bed, database)
        self._cluster = cluster

    def play(self, case: str) -> HdfsResult:
        """Run a case with the same seeds as on a local disk, with executors among the victims."""
        result = super().play(case)
        return HdfsResult(**msgspec.structs.asdict(result), checkpoints=self.bed.checkpoints, master=self.bed.master)

    def _victims(self) -> list[tuple[str, psutil.Process]]:
        return super()._victims() + [("executor", each) for each in self._cluster.executors()]


@contextmanager
def in_hdfs(root: Path) -> Iterator[HdfsStage]:
    """Open a stage on a fresh installation with new servers: HDFS, PostgreSQL, and a cluster with two workers."""
    with (
        hdfs_servers() as servers,
        set_variables(servers.environment),
        fresh_bed(root, JOBS, f"{servers.hdfs.url}/checkpoints", servers.cluster.master) as bed,
    ):
        yield HdfsStage(bed, servers.cluster, servers.database)
