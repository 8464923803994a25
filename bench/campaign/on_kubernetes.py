"""Switches of a job whose drivers are Kubernetes' pods: checkpoints on S3, both tables in PostgreSQL.

Operations run where they see no driver: what Kubernetes can know is all that proves a death.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from bench.campaign.cases import CaseResult
from bench.campaign.on_yarn import inner_processes
from bench.campaign.served_tables import ServedTablesStage
from bench.campaign.switch_runs import JOBS
from bench.campaign.switching import PATIENCE
from harness.bed import Bed, fresh_bed
from harness.kubernetes_node import KubernetesNode
from harness.remote_servers import pod_servers
from harness.variables import set_variables
from streamkeeper.model.control import KUBERNETES

_REVIVED_S = 2.0


class PodResult(CaseResult, frozen=True, kw_only=True):
    """``checkpoints``: where they were; ``drivers``: whose pods ran the drivers."""

    checkpoints: str
    drivers: str


class PodStage(ServedTablesStage):
    """A site whose drivers are pods: they die and freeze, and so do the kubelet and what holds their containers."""

    patience = (
        *PATIENCE,
        *("--conf", "spark.driver.memory=512m", "--conf", "spark.sql.shuffle.partitions=2"),
    )

    def __init__(self, bed: Bed, node: KubernetesNode, database: str) -> None:
        super().__init__(bed, database)
        self._node = node

    def play(self, case: str) -> PodResult:
        """Of the seeds of a disk, with a node's own processes among the victims."""
        result = super().play(case)
        return PodResult(**msgspec.structs.asdict(result), checkpoints="s3a", drivers=self.bed.drivers)

    def _victims(self) -> list[tuple[str, psutil.Process]]:
        """An operation is the process in its namespace, not the one that waits outside for it."""
        found = [(who, inner) for who, each in super()._victims() for inner in inner_processes(who, each)]
        shims = [("shim", psutil.Process(pid)) for pid in self._node.shims()]
        return [*found, *shims, ("kubelet", psutil.Process(self._node.kubelet))]


@contextmanager
def on_kubernetes(root: Path) -> Iterator[PodStage]:
    """A stage on a fresh site, with new servers: S3, PostgreSQL and a node, whose pods have the site's folder."""
    with (
        pod_servers(root.absolute()) as servers,
        set_variables(servers.environment),
        fresh_bed(root, JOBS, servers.checkpoints, drivers=KUBERNETES, pod_template=str(servers.template)) as bed,
        _watched(servers.node),
    ):
        yield PodStage(bed, servers.node, servers.database)


@contextmanager
def _watched(node: KubernetesNode) -> Iterator[None]:
    """A kubelet that dies is started again, as a machine's own watch does."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_REVIVED_S):
            node.revive_kubelet()

    watching = threading.Thread(target=watch, name="node watch", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
