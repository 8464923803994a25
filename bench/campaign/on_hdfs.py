"""Switches of a job whose checkpoints are in HDFS; its tasks stay in its drivers, for two of its outputs are files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.campaign.cases import CaseResult
from bench.campaign.switch_runs import JOBS
from bench.campaign.switching import SwitchStage
from harness.bed import fresh_bed
from harness.hdfs_server import hdfs_server
from harness.variables import set_variables


class HdfsResult(CaseResult, frozen=True, kw_only=True):
    """``checkpoints``: where they were."""

    checkpoints: str


class HdfsStage(SwitchStage):
    """A site whose checkpoints are in HDFS."""

    def play(self, case: str) -> HdfsResult:
        """As on a disk, for the same seeds."""
        result = super().play(case)
        return HdfsResult(**msgspec.structs.asdict(result), checkpoints=self.bed.checkpoints)


@contextmanager
def in_hdfs(root: Path) -> Iterator[HdfsStage]:
    """A stage on a fresh site, with its checkpoints in an empty file system."""
    with (
        hdfs_server(root.absolute().with_name(f"{root.name}-hdfs")) as server,
        set_variables(server.environment),
        fresh_bed(root, JOBS, f"{server.url}/checkpoints") as bed,
    ):
        yield HdfsStage(bed)
