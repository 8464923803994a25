"""Runs jobs that write Delta tables through every lifecycle operation, with real drivers; every row once."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from harness.delta_tables import read_delta
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
)
from tests.integration.test_lives import IN_HDFS, ON_S3
from tests.integration.test_recovery import JOB

pytestmark = [pytest.mark.storage, pytest.mark.spark, pytest.mark.timeout(1500)]

_SINKS = {
    JOB: ('TableSink(params["warehouse"], table="sales_totals", key=', 'DeltaSink(params["warehouse"], key='),
    ROWS: (SINK_OF_ROWS, 'DeltaSink(params["warehouse"] + "_of_rows")'),
}
"""Job -> its sink, and the one that these tests give it."""


class DeltaHouse(Remote):
    """A test installation whose jobs write Delta tables next to the checkpoints: one with a key, the other without."""

    def __init__(self, root: Path, checkpoints: str, *, master: str = "") -> None:
        super().__init__(root, checkpoints, master=master)
        self._table = f"{checkpoints.rpartition('/')[0]}/tables/totals"

    @property
    def job_files(self) -> Path:
        folder = super().job_files
        for job, (before, after) in _SINKS.items():
            replace_sink(folder / f"{job}.py", before, after)
        return folder

    @property
    def database(self) -> str:
        return self._table

    def totals(self) -> dict[str, tuple[int, int]]:
        rows = read_delta(self._table, ["customer", "sales", "total"])
        assert len({row[0] for row in rows}) == len(rows)
        return {row[0]: row[1:] for row in rows}

    def read(self, query: str) -> list[tuple[Any, ...]]:
        assert "sales_rows" in query
        return read_delta(f"{self._table}_of_rows", ["event_id", "customer", "amount"])


class SpreadDeltaHouse(DeltaHouse):
    """The same, with the tasks on executors of a cluster."""

    conf = Spread.conf
    patience_s = Spread.patience_s


@pytest.fixture(autouse=True)
def delta_jars() -> None:
    if not Path(sys.prefix, "connectors", "delta").is_dir():
        pytest.skip("no Delta jars (make connectors)")


@pytest.mark.parametrize("checkpoints", ["on_disk", ON_S3, IN_HDFS], indirect=True)
def test_jobs_that_write_delta_tables_pass_every_operation(tmp_path: Path, checkpoints: str) -> None:
    """A job with a keyed Delta table passes through a resume, a rebuild, a rollback, a kill and a restore of a lost
    checkpoint, and a job without a key through a handoff; readers of the tables see every row once.
    """
    with opened(DeltaHouse(tmp_path, checkpoints)) as house:
        live_a_life(house)
        hand_off(house)


@pytest.mark.parametrize("checkpoints", [ON_S3, IN_HDFS], indirect=True)
def test_executors_that_are_killed_or_frozen_add_no_row_to_a_delta_table(
    tmp_path: Path, checkpoints: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job whose tasks run on executors, which are killed and then frozen, passes through every operation; readers of
    its Delta table see every row once.
    """
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with (
        spark_cluster(Path(tempfile.mkdtemp(prefix="streamkeeper-cluster-"))) as cluster,
        opened(SpreadDeltaHouse(tmp_path, checkpoints, master=cluster.master)) as house,
    ):
        outlive_executors(house, cluster)
        live_a_life(house)
