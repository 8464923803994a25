"""Runs jobs that write tables without a key through every lifecycle operation, with real drivers; every row once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.remote_house import (
    ROWS,
    SINK_OF_ROWS,
    Remote,
    hand_off,
    live_a_life,
    opened,
    replace_sink,
    write_every_sale,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


class AppendHouse(Remote):
    """A test installation whose jobs write tables without a key: one with state, the other without."""

    @property
    def job_files(self) -> Path:
        folder = super().job_files
        write_every_sale(folder, 'AppendTableSink(params["warehouse"], table="sales")')
        replace_sink(folder / f"{ROWS}.py", SINK_OF_ROWS, 'AppendTableSink(params["warehouse"], table="sales_rows")')
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
