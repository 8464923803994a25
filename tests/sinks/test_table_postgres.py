"""Tests that TableSink keeps its promises on a real PostgreSQL, where writers run concurrently."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest

from harness.postgres_server import new_database
from streamkeeper.errors import Fenced
from streamkeeper.sinks import table_writer
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.table import TableSink
from streamkeeper.sinks.table_writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.postgres, pytest.mark.spark]
SCHEMA = "customer string, total long"


@pytest.fixture
def database(postgres_server: str) -> str:
    """The libpq URL of a new database."""
    return new_database(postgres_server, f"test_{uuid4().hex[:12]}")


@pytest.fixture
def writer_of(database: str) -> Iterator[Callable[[int], TableWriter]]:
    """A function that opens a writer of an epoch; all writers are closed after the test."""
    opened: list[TableWriter] = []

    def open_writer(epoch: int, *, mode: str = "update") -> TableWriter:
        url = database.replace("postgresql://", "postgresql+psycopg://")
        context = SinkContext(job="sales", query="totals", version="v0001", epoch=epoch, output_mode=mode)
        opened.append(TableSink(url, table="totals", key=["customer"]).open(context))
        return opened[-1]

    yield open_writer
    for writer in opened:
        writer.close()


def rows(database: str, statement: str = "SELECT * FROM totals ORDER BY customer") -> list[tuple[Any, ...]]:
    with psycopg.connect(database) as connection:
        return connection.execute(statement).fetchall()


def supersede_slowly(database: str) -> threading.Timer:
    """Advance the epoch in a transaction that is still open on return and is committed 0.3 s later."""
    connection = psycopg.connect(database)
    connection.execute("UPDATE streamkeeper_outputs SET epoch = 2")

    def commit() -> None:
        connection.commit()
        connection.close()

    timer = threading.Timer(0.3, commit)
    timer.start()
    return timer


def test_each_batch_is_written_once(spark: SparkSession, database: str, writer_of: Callable[..., TableWriter]) -> None:
    """A later batch replaces the rows of its keys, and a replayed batch changes nothing, even under a newer epoch."""
    first, second = writer_of(1), writer_of(2)
    first.raise_fence()
    first.write(spark.createDataFrame([("a", 1), ("b", 2)], SCHEMA), 0)
    first.write(spark.createDataFrame([("b", 5), ("c", 7)], SCHEMA), 1)
    second.raise_fence()
    second.write(spark.createDataFrame([("b", 99)], SCHEMA), 1)
    assert rows(database) == [("a", 1), ("b", 5), ("c", 7)]
    assert second.last_batch() == 1
    assert rows(database, "SELECT count(*) FROM totals__staged") == [(0,)]


def test_complete_mode_replaces_all_rows(
    spark: SparkSession, database: str, writer_of: Callable[..., TableWriter]
) -> None:
    """In complete mode a key that the batch lacks is deleted."""
    writer = writer_of(1, mode="complete")
    writer.raise_fence()
    writer.write(spark.createDataFrame([("a", 1), ("b", 2)], SCHEMA), 0)
    writer.write(spark.createDataFrame([("b", 3)], SCHEMA), 1)
    assert rows(database) == [("b", 3)]


def test_values_and_nulls_are_read_back_unchanged_from_postgresql(
    spark: SparkSession, database: str, writer_of: Callable[..., TableWriter]
) -> None:
    """Instants, decimals, floats, booleans and NULLs are read back unchanged."""
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    values = [("a", Decimal("12345678901234567.89"), moment, 0.1, True), ("b", None, None, None, None)]
    frame = spark.createDataFrame(values, "customer string, d decimal(20,2), t timestamp, f double, b boolean")
    writer = writer_of(1)
    writer.raise_fence()
    writer.write(frame, 0)
    read = rows(database, "SELECT customer, d, t, f, b FROM totals ORDER BY customer")
    assert read[0][:2] + read[0][3:] == ("a", Decimal("12345678901234567.89"), 0.1, True)
    assert read[0][2].astimezone(UTC) == moment
    assert read[1][1:] == (None, None, None, None)


def test_a_writer_that_waits_for_its_successors_commit_writes_nothing(
    spark: SparkSession, database: str, writer_of: Callable[..., TableWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that meets the open transaction of its successor waits for its commit and then writes nothing."""
    old, raising = writer_of(1), []
    old.raise_fence()
    old.write(spark.createDataFrame([("a", 1)], SCHEMA), 0)
    hold = {"sink.staged": lambda: raising.append(supersede_slowly(database))}
    monkeypatch.setattr(table_writer, "crash_point", lambda name: hold.get(name, lambda: None)())
    with pytest.raises(Fenced, match="superseded by epoch 2"):
        old.write(spark.createDataFrame([("a", 99)], SCHEMA), 1)
    raising[0].join()
    assert rows(database) == [("a", 1)]


def test_without_the_fence_that_writer_does_write(
    spark: SparkSession, database: str, writer_of: Callable[..., TableWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the condition on the epoch, the superseded writer changes the table."""
    old, raising = writer_of(1), []
    old.raise_fence()
    hold = {"sink.staged": lambda: raising.append(supersede_slowly(database))}
    monkeypatch.setattr(table_writer, "crash_point", lambda name: hold.get(name, lambda: None)())
    monkeypatch.setattr(TableWriter, "_advance", lambda *_: True)
    old.write(spark.createDataFrame([("a", 99)], SCHEMA), 0)
    raising[0].join()
    assert rows(database) == [("a", 99)]
