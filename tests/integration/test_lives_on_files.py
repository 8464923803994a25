"""Runs jobs that write files next to their checkpoints, in a bucket and in HDFS, through every lifecycle operation,
with real drivers; a reader of the sink log sees every row once.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from harness.outputs import read_rows
from harness.spark_cluster import spark_cluster
from tests.integration.remote_house import (
    ROWS,
    SINK_OF_ROWS,
    Remote,
    Spread,
    hand_off,
    live_a_life,
    opened,
    outlive_executors,
    replace_sink,
    write_every_sale,
)
from tests.integration.test_lives import IN_HDFS, ON_S3
from tests.integration.test_recovery import JOB

pytestmark = [pytest.mark.storage, pytest.mark.spark, pytest.mark.timeout(1500)]


class FilesHouse(Remote):
    """A test installation whose jobs write files next to the checkpoints: one with state, the other without."""

    def __init__(self, root: Path, checkpoints: str, *, master: str = "") -> None:
        super().__init__(root, checkpoints, master=master)
        self._output = f"{checkpoints.rpartition('/')[0]}/files"

    @property
    def job_files(self) -> Path:
        folder = super().job_files
        write_every_sale(folder, 'FileSink(params["warehouse"], partition_by=["customer"])')
        replace_sink(folder / f"{ROWS}.py", SINK_OF_ROWS, 'FileSink(params["warehouse"] + "_of_rows")')
        return folder

    @property
    def database(self) -> str:
        return self._output

    def totals(self) -> dict[str, tuple[int, int]]:
        rows = list(read_rows(self._output, ["event_id", "customer", "amount"]))
        assert len({event for event, _, _ in rows}) == len(rows)
        amounts: dict[str, list[int]] = {}
        for _, customer, amount in rows:
            amounts.setdefault(customer, []).append(amount)
        return {customer: (len(each), sum(each)) for customer, each in amounts.items()}

    def read(self, query: str) -> list[tuple[Any, ...]]:
        assert "sales_rows" in query
        return list(read_rows(f"{self._output}_of_rows", ["event_id", "customer", "amount"]))


class SpreadFilesHouse(FilesHouse):
    """The same, with the tasks on executors of a cluster."""

    conf = Spread.conf
    patience_s = Spread.patience_s


@pytest.mark.parametrize("checkpoints", [ON_S3, IN_HDFS], indirect=True)
def test_jobs_that_write_files_to_remote_storage_pass_every_operation(tmp_path: Path, checkpoints: str) -> None:
    """A job with state and partitioned files passes through a resume, a rebuild, a rollback, a kill and a restore of a
    lost checkpoint, and a job without state through a handoff; readers of the sink log see every row once, and a prune
    reports the log's size.
    """
    with opened(FilesHouse(tmp_path, checkpoints)) as house:
        live_a_life(house)
        assert f"size {house.database}/v0001/_spark_metadata: " in house.command("prune", JOB, "--dry-run").stdout
        hand_off(house)


@pytest.mark.parametrize("checkpoints", [ON_S3], indirect=True)
def test_executors_that_are_killed_or_frozen_add_no_row_to_files(
    tmp_path: Path, checkpoints: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job whose tasks run on executors, which are killed and then frozen, passes through every operation; readers of
    the sink log see every row once.
    """
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with (
        spark_cluster(Path(tempfile.mkdtemp(prefix="streamkeeper-cluster-"))) as cluster,
        opened(SpreadFilesHouse(tmp_path, checkpoints, master=cluster.master)) as house,
    ):
        outlive_executors(house, cluster)
        live_a_life(house)
