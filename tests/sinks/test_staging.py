"""Tests, without Spark, the rows that a partition leaves in the staging table."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from streamkeeper.sinks.columns import TableColumn
from streamkeeper.sinks.staging import CHUNK_ROWS, StagingPlan, outputs_table, stage_partition, staging_table

COLUMNS = (TableColumn(name="customer", kind="string"), TableColumn(name="total", kind="long"))


@pytest.mark.parametrize("rows", [1, CHUNK_ROWS, CHUNK_ROWS + 1, 2 * CHUNK_ROWS + 7])
def test_a_partition_of_any_size_is_staged_whole(tmp_path: Path, rows: int) -> None:
    """Every row of a partition is staged once and in order, even if the rows need several statements."""
    url = f"sqlite:///{tmp_path / 'warehouse.db'}"
    engine, metadata = sa.create_engine(url), sa.MetaData()
    outputs, staged = outputs_table(metadata), staging_table(metadata, "totals", COLUMNS, "sqlite")
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(outputs), {"output": "totals", "owner": "sales/totals", "epoch": 1})
    wanted = [(f"c{number}", number) for number in range(rows)]
    plan = StagingPlan(url=url, table="totals", columns=COLUMNS, epoch=1, token="a")
    stage_partition(plan, ((*row, None) for row in wanted))
    with engine.connect() as connection:
        found = connection.execute(sa.select(staged.c.customer, staged.c.total).order_by(staged.c._sk_row))
        assert [tuple(row) for row in found] == wanted
    engine.dispose()
