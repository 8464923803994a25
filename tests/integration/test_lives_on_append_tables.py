"""Runs jobs that write tables without a key through every lifecycle operation, with real drivers; every row once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.remote_house import ROWS, Remote, hand_off, live_a_life, opened
from tests.integration.test_recovery import JOB

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

_SINK_OF_ROWS = 'TableSink(params["warehouse"], table="sales_rows", key=["event_id"])'
_SALES = '''"""Write every sale once."""

from streamkeeper import AppendTableSink, Param, Query, streaming_job


@streaming_job(
    name="sales_totals",
    params={
        "input": Param(str, help="directory in which the sales files arrive"),
        "warehouse": Param(str, help="database URL of the sales"),
        "trigger": Param(str, default="1 second", help="an interval"),
    },
)
def sales_totals(spark, params):
    """Write every sale unchanged, and drop repeated ones."""
    sales = spark.readStream.schema("event_id string, customer string, amount long").csv(params["input"])
    sink = AppendTableSink(params["warehouse"], table="sales")
    yield Query("totals", sales.dropDuplicates(["event_id"]), sink=sink, trigger=params["trigger"])
'''


class AppendHouse(Remote):
    """A test installation whose jobs write tables without a key: one with state, the other without."""

    @property
    def job_files(self) -> Path:
        folder = super().job_files
        (folder / f"{JOB}.py").write_text(_SALES)
        file = folder / f"{ROWS}.py"
        source = file.read_text()
        assert _SINK_OF_ROWS in source or "AppendTableSink" in source
        source = source.replace(_SINK_OF_ROWS, 'AppendTableSink(params["warehouse"], table="sales_rows")')
        file.write_text(source.replace("Query, TableSink, streaming_job", "AppendTableSink, Query, streaming_job"))
        return folder

    def totals(self) -> dict[str, tuple[int, int]]:
        rows = self.read("SELECT customer, count(*), sum(amount) FROM sales GROUP BY customer")
        return {customer: (count, total) for customer, count, total in rows}


def test_jobs_that_write_tables_without_a_key_pass_every_operation(tmp_path: Path) -> None:
    """A job with state passes through a resume, a rebuild, a rollback, a kill and a restore of a lost checkpoint, and a
    job without state through a handoff; the tables contain every row once, although no key could replace a second one.
    """
    with opened(AppendHouse(tmp_path, str(tmp_path / "checkpoints"))) as house:
        live_a_life(house)
        versions = house.read("SELECT DISTINCT _sk_version FROM sales ORDER BY 1")
        assert len(versions) == 2, "the restored version continues the rows of its parent"
        hand_off(house)
