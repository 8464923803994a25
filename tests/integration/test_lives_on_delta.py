"""Runs jobs that write Delta tables through every lifecycle operation, with real drivers; every row once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from harness.delta_tables import read_delta
from tests.integration.remote_house import ROWS, Remote, hand_off, live_a_life, opened
from tests.integration.test_recovery import JOB

pytestmark = [pytest.mark.storage, pytest.mark.spark, pytest.mark.timeout(1500)]

_SINKS = {
    JOB: ('TableSink(params["warehouse"], table="sales_totals", key=', 'DeltaSink(params["warehouse"], key='),
    ROWS: (
        'TableSink(params["warehouse"], table="sales_rows", key=["event_id"])',
        'DeltaSink(params["warehouse"] + "_of_rows")',
    ),
}
"""Job -> its sink, and the one that these tests give it."""


class DeltaHouse(Remote):
    """A test installation whose jobs write Delta tables: one with a key, the other without."""

    @property
    def job_files(self) -> Path:
        folder = super().job_files
        for job, (before, after) in _SINKS.items():
            file = folder / f"{job}.py"
            source = file.read_text()
            assert before in source or after in source
            file.write_text(
                source.replace(before, after).replace("TableSink, streaming_job", "DeltaSink, streaming_job")
            )
        return folder

    @property
    def database(self) -> str:
        return str(self.root / "table")

    def totals(self) -> dict[str, tuple[int, int]]:
        rows = read_delta(self.root / "table", ["customer", "sales", "total"])
        assert len({row[0] for row in rows}) == len(rows)
        return {row[0]: row[1:] for row in rows}

    def read(self, query: str) -> list[tuple[Any, ...]]:
        assert "sales_rows" in query
        return read_delta(self.root / "table_of_rows", ["event_id", "customer", "amount"])


def test_jobs_that_write_delta_tables_pass_every_operation(tmp_path: Path) -> None:
    """A job with a keyed Delta table passes through a resume, a rebuild, a rollback, a kill and a restore of a lost
    checkpoint, and a job without a key through a handoff; readers of the tables see every row once.
    """
    if not Path(sys.prefix, "connectors", "delta").is_dir():
        pytest.skip("no Delta jars (make connectors)")
    with opened(DeltaHouse(tmp_path, str(tmp_path / "cp"))) as house:
        live_a_life(house)
        hand_off(house)
