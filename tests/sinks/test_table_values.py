"""Tests the values that a TableSink stores in a real PostgreSQL, and that a rehearsal leaves nothing there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.table import TableSink
from streamkeeper.sinks.table_writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.fixture
def url(postgres_server: str) -> Iterator[str]:
    """A database URL whose tables are dropped afterwards."""
    url = postgres_server.replace("postgresql://", "postgresql+psycopg://")
    yield url
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for name in ("totals", "totals__staged", "streamkeeper_outputs"):
            connection.execute(sa.text(f"DROP TABLE IF EXISTS {name}"))
    engine.dispose()


def writer_of(url: str, epoch: int, mode: str = "update") -> TableWriter:
    sink = TableSink(url, table="totals", key=["customer"])
    return sink.open(SinkContext(job="sales", query="totals", version="v0001", epoch=epoch, output_mode=mode))


def rows(url: str) -> list[tuple]:
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text("SELECT * FROM totals ORDER BY customer"))]
    finally:
        engine.dispose()


def test_values_of_every_scalar_type_are_read_back_unchanged(spark: SparkSession, url: str) -> None:
    """Values of every scalar type are read back unchanged, with time zone and all decimal digits, and the same
    columns still fit under the next epoch.
    """
    at = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    schema = (
        "customer string, l long, i int, s smallint, y tinyint, d double, f float, b boolean, t timestamp,"
        " n timestamp_ntz, day date, m decimal(20,2), x binary"
    )
    local = at.replace(tzinfo=None)
    values = ("a", 2**40, 7, 5, 3, 1.5, 0.25, True, at, local, at.date(), Decimal("123456789012345678.01"), b"\x00")
    for epoch in (1, 2):
        writer = writer_of(url, epoch)
        writer.raise_fence()
        writer.write(spark.createDataFrame([values], schema), epoch)
        writer.close()
    assert rows(url) == [values]


def test_a_rehearsal_uses_only_temporary_tables(spark: SparkSession, url: str) -> None:
    """A rehearsal uses only temporary tables and leaves none."""
    TableSink(url, table="totals", key=["customer"]).rehearse(
        spark.createDataFrame([("a", 1)], "customer string, total long")
    )
    engine = sa.create_engine(url)
    assert not [name for name in sa.inspect(engine).get_table_names() if name.startswith("totals")]
    engine.dispose()
