"""Switches of a job whose drivers are containers of a cluster, by operations that see no driver: what the cluster can
know is all that proves a death."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import psutil

from chaos.cases import CaseResult
from chaos.served_tables import ServedTablesStage
from chaos.switching import PATIENCE
from harness.bed import Bed


class NodeResult(CaseResult, frozen=True, kw_only=True):
    """``checkpoints``: where they were; ``drivers``: whose containers ran the drivers."""

    checkpoints: str
    drivers: str


class NodeStage(ServedTablesStage):
    """A site whose drivers are containers: they die and freeze, and so do the processes of their node.

    ``of_the_node``: those that may be struck, each with what it is.
    """

    patience = (
        *PATIENCE,
        *("--conf", "spark.driver.memory=512m", "--conf", "spark.sql.shuffle.partitions=2"),
    )

    def __init__(self, bed: Bed, database: str, of_the_node: Callable[[], list[tuple[str, psutil.Process]]]) -> None:
        super().__init__(bed, database)
        self._of_the_node = of_the_node

    def play(self, case: str) -> NodeResult:
        """Of the seeds of a disk, with a node's own processes among the victims."""
        result = super().play(case)
        return NodeResult(**msgspec.structs.asdict(result), checkpoints=self.bed.checkpoints, drivers=self.bed.drivers)

    def _victims(self) -> list[tuple[str, psutil.Process]]:
        """An operation is the process in its namespace, not the one that waits outside for it."""
        inner = [(who, each) for who, outer in super()._victims() for each in _inner(who, outer)]
        return [*inner, *self._of_the_node()]


def _inner(who: str, process: psutil.Process) -> list[psutil.Process]:
    if who != "operation":
        return [process]
    try:
        return list(process.children())
    except psutil.NoSuchProcess:
        return []
