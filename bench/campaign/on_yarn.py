"""Switches of a job whose drivers are YARN's: checkpoints in HDFS, both tables in PostgreSQL.

Operations run where they see no driver: what YARN can know is all that proves a death.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil

from bench.campaign.cases import CaseResult
from bench.campaign.served_tables import ServedTablesStage
from bench.campaign.switch_runs import JOBS
from bench.campaign.switching import PATIENCE
from harness.bed import Bed, fresh_bed
from harness.remote_servers import hdfs_and_database
from harness.variables import set_variables
from harness.yarn_server import YarnServer, yarn_server
from streamkeeper.model.control import YARN

_GIVEN_UP_S = 60.0
_REVIVED_S = 2.0


class YarnResult(CaseResult, frozen=True, kw_only=True):
    """``checkpoints``: where they were; ``drivers``: whose containers ran the drivers."""

    checkpoints: str
    drivers: str


class YarnStage(ServedTablesStage):
    """A site whose drivers are containers: they die and freeze, and so do their NodeManager and its shells."""

    patience = (
        *PATIENCE,
        *("--conf", "spark.driver.memory=512m", "--conf", "spark.sql.shuffle.partitions=2"),
    )

    def __init__(self, bed: Bed, yarn: YarnServer, database: str) -> None:
        super().__init__(bed, database)
        self._yarn = yarn

    def play(self, case: str) -> YarnResult:
        """Of the seeds of a disk, with a cluster's own processes among the victims."""
        result = super().play(case)
        where = {"checkpoints": self.bed.checkpoints, "drivers": self.bed.drivers}
        return YarnResult(**msgspec.structs.asdict(result), **where)

    def _victims(self) -> list[tuple[str, psutil.Process]]:
        """An operation is the process in its namespace, not the one that waits outside for it."""
        found = [(who, inner) for who, each in super()._victims() for inner in inner_processes(who, each)]
        masters = [each for each in psutil.process_iter(["cmdline"]) if _tells_yarn(each, self._yarn.home)]
        return [
            *found,
            *(("application master", each) for each in masters),
            ("node manager", psutil.Process(self._yarn.node_manager)),
        ]


def inner_processes(who: str, process: psutil.Process) -> list[psutil.Process]:
    """What is struck of a victim: of an operation in a namespace of its own, what runs in there."""
    if who != "operation":
        return [process]
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []


def _tells_yarn(process: psutil.Process, home: Path) -> bool:
    """Whether it is the one that says for a container of this cluster that it is there."""
    words = process.info["cmdline"] or []
    return any(word.endswith("ApplicationMaster.java") for word in words) and any(str(home) in word for word in words)


@contextmanager
def on_yarn(root: Path) -> Iterator[YarnStage]:
    """A stage on a fresh site, with new servers: HDFS, PostgreSQL and YARN, whose containers lie in the site."""
    local = {"SPARK_LOCAL_IP": "127.0.0.1"}
    with (
        hdfs_and_database() as (hdfs, database),
        fresh_bed(root, JOBS, f"{hdfs.url}/checkpoints", drivers=YARN) as bed,
        yarn_server(bed.root / "yarn", local, beside=hdfs.conf, expiry_s=_GIVEN_UP_S) as yarn,
        set_variables({**yarn.environment, **local}),
        _watched(yarn),
    ):
        yield YarnStage(bed, yarn, database)


@contextmanager
def _watched(yarn: YarnServer) -> Iterator[None]:
    """A NodeManager that dies is started again, as a cluster's own watch does."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_REVIVED_S):
            with suppress(KeyError):
                yarn.revive_node()

    watching = threading.Thread(target=watch, name="node watch", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
