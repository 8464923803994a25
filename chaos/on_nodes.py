"""Switches of a job whose drivers are containers of a cluster, by operations that cannot see the drivers' processes:
only what the cluster reports can prove a death.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import psutil

from chaos.cases import CaseResult
from chaos.served_tables import ServedTablesStage
from chaos.switching import PATIENCE
from harness.bed import Bed


class NodeResult(CaseResult, frozen=True, kw_only=True):
    """The result of a case; ``checkpoints`` is the URL of the checkpoints, ``drivers`` the kind of cluster whose
    containers ran the drivers.
    """

    checkpoints: str
    drivers: str


class NodeStage(ServedTablesStage):
    """An installation whose drivers are containers; they are killed and frozen, and so are the processes of their node.

    ``of_the_node`` returns the processes that may be struck, each with its name.
    """

    patience = (
        *PATIENCE,
        *("--conf", "spark.driver.memory=512m", "--conf", "spark.sql.shuffle.partitions=2"),
    )

    def __init__(self, bed: Bed, database: str, of_the_node: Callable[[], list[tuple[str, psutil.Process]]]) -> None:
        super().__init__(bed, database)
        self._of_the_node = of_the_node

    def play(self, case: str) -> NodeResult:
        """Run a case with the same seeds as on a local disk, with the node's own processes among the victims."""
        result = super().play(case)
        return NodeResult(**msgspec.structs.asdict(result), checkpoints=self.bed.checkpoints, drivers=self.bed.drivers)

    def _victims(self) -> list[tuple[str, psutil.Process]]:
        """Return the processes that may be struck; for an operation it is the process inside its namespace, not the one
        that waits outside.
        """
        inner = [(who, each) for who, outer in super()._victims() for each in _inner(who, outer)]
        return [*inner, *self._of_the_node()]


def _inner(who: str, process: psutil.Process) -> list[psutil.Process]:
    if who != "operation":
        return [process]
    try:
        return list(process.children())
    except psutil.NoSuchProcess:
        return []
