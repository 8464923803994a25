"""Switches of a job whose tasks run on a standalone cluster: checkpoints in HDFS, both tables in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import psutil
import psycopg

from bench.campaign.cases import CaseResult
from bench.campaign.scenarios import SCENARIOS, Ask
from bench.campaign.switch_runs import JOBS
from bench.campaign.switching import PATIENCE, UNHURRIED, SwitchStage
from bench.campaign.watching import Watch, sum_in_database
from harness.bed import Bed, fresh_bed
from harness.ledger import Account, Totals, compare_events, compare_totals, read_rows, totals_of
from harness.remote_servers import hdfs_servers
from harness.spark_cluster import SparkCluster
from harness.variables import set_variables


class HdfsResult(CaseResult, frozen=True, kw_only=True):
    """``checkpoints``: where they were; ``master``: whose executors ran the tasks."""

    checkpoints: str
    master: str


class HdfsStage(SwitchStage):
    """A site whose checkpoints are in HDFS, and whose executors are a cluster's: they die and freeze as drivers do."""

    calm_s = 240.0
    # What breaks in cutover and probation breaks in a function of the driver's, which no such job has.
    scenarios = {name: each for name, each in SCENARIOS.items() if each.ask.breaks in ("", "shadow")}
    haste = UNHURRIED
    patience = (
        *PATIENCE,
        *("--conf", "spark.executor.memory=512m", "--conf", "spark.sql.shuffle.partitions=2"),
    )

    def __init__(self, bed: Bed, cluster: SparkCluster, database: str) -> None:
        super().__init__(bed)
        self._cluster, self._database = cluster, database

    def play(self, case: str) -> HdfsResult:
        """Of the seeds of a disk, with executors among the victims."""
        result = super().play(case)
        where = {"checkpoints": self.bed.checkpoints, "master": self.bed.master}
        return HdfsResult(**msgspec.structs.asdict(result), **where)

    def accounts(self) -> list[Account]:
        """One account per query, of all of the input."""
        sales, events = (read_rows(self.bed.input / name) for name in ("sales", "events"))
        return [
            compare_totals("totals", totals_of(sales), self._totals()),
            compare_events("copies", [row[0] for row in events], self._copies()),
        ]

    def _totals(self) -> dict[str, Totals]:
        rows = self._read("SELECT customer, sales, total, squares, to_jsonb(totals) -> 'largest' FROM totals")
        return {customer: Totals(*map(int, sums), largest) for customer, *sums, largest in rows}

    def _copies(self) -> list[str]:
        return [event for (event,) in self._read("SELECT event_id FROM copies")]

    def _read(self, query: str) -> list[tuple]:
        try:
            with psycopg.connect(self._database) as connection:
                return connection.execute(query).fetchall()
        except psycopg.errors.UndefinedTable:
            return []

    def _watch(self) -> Watch:
        return Watch(partial(sum_in_database, self._database))

    def _params_of(self, ask: Ask) -> dict[str, object]:
        warehouse = self._database.replace("postgresql://", "postgresql+psycopg://")
        return {**super()._params_of(ask), "warehouse": warehouse}

    def _victims(self) -> list[tuple[str, psutil.Process]]:
        return super()._victims() + [("executor", each) for each in self._cluster.executors()]


@contextmanager
def in_hdfs(root: Path) -> Iterator[HdfsStage]:
    """A stage on a fresh site, with new servers: HDFS, PostgreSQL, and a cluster with two workers."""
    with (
        hdfs_servers() as servers,
        set_variables(servers.environment),
        fresh_bed(root, JOBS, f"{servers.hdfs.url}/checkpoints", servers.cluster.master) as bed,
    ):
        yield HdfsStage(bed, servers.cluster, servers.database)
