"""Tests values that a table would store as different ones: the batch is refused with the column's name and changes no
row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.errors import PermanentError
from streamkeeper.sinks import refused_values, table_writer
from streamkeeper.sinks.table import TableSink
from tests.sinks.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def of_bytes(spark: SparkSession, value: bytes, total: int = 1) -> DataFrame:
    """Return one row whose key has these bytes, as text files and Kafka's ``cast(value as string)`` produce them."""
    frame = spark.createDataFrame([(bytearray(value), total)], "customer binary, total long")
    return frame.selectExpr("cast(customer as string) customer", "total")


def of_numbers(spark: SparkSession, *values: float | None, kind: str = "double") -> DataFrame:
    return spark.createDataFrame([(str(n), value) for n, value in enumerate(values)], f"customer string, total {kind}")


def unmarked(batch: DataFrame, *_: Any) -> DataFrame:
    return batch.selectExpr("*", f"cast(NULL as int) {refused_values.MARK}")


def test_a_batch_with_an_invalid_utf8_key_is_refused(spark: SparkSession, warehouse: Warehouse) -> None:
    """A key that is not valid UTF-8 refuses its batch with table, batch, column and fix, and no row is written; valid
    text beyond ASCII is accepted.
    """
    writer = warehouse.writer("v0001", 1)
    writer.raise_fence()
    writer.write(of_bytes(spark, "café".encode()), 0)
    with pytest.raises(PermanentError, match=r"table totals: batch 1 .*column customer.*make_valid_utf8"):
        writer.write(of_bytes(spark, b"caf\xe9").union(of_bytes(spark, b"tea")), 1)
    assert warehouse.rows() == [("café", 1)]
    assert writer.last_batch() == 0


def test_without_the_mark_for_refused_values_two_invalid_keys_become_one_row(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the mark for refused values, the second of two different invalid keys overwrites the
    row of the first.
    """
    monkeypatch.setattr(table_writer, "mark_refused", unmarked)
    writer = warehouse.writer("v0001", 1)
    writer.raise_fence()
    writer.write(of_bytes(spark, b"caf\xe9", 1), 0)
    writer.write(of_bytes(spark, b"caf\xe8", 2), 1)
    assert warehouse.rows() == [("caf\ufffd", 2)]


def test_a_value_that_is_no_utf8_is_written_with_replacement_characters(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    """Invalid UTF-8 outside of the key is written with replacement characters, because no row is lost by it."""
    writer = warehouse.writer("v0001", 1, key=("total",))
    writer.raise_fence()
    writer.write(of_bytes(spark, b"caf\xe9"), 0)
    assert warehouse.rows() == [("caf\ufffd", 1)]


@pytest.mark.parametrize("kind", ["double", "float"])
def test_nan_is_refused_on_sqlite_and_kept_on_postgresql(spark: SparkSession, warehouse: Warehouse, kind: str) -> None:
    """SQLite, which has no NaN, refuses a batch with one and names the fix, while PostgreSQL stores it; both keep NULL
    and the infinities.
    """
    writer = warehouse.writer("v0001", 1)
    writer.raise_fence()
    writer.write(of_numbers(spark, None, float("inf"), float("-inf"), -0.0, kind=kind), 0)
    assert warehouse.rows() == [("0", None), ("1", float("inf")), ("2", float("-inf")), ("3", 0.0)]
    batch = of_numbers(spark, float("nan"), kind=kind)
    if warehouse.sqlite:
        with pytest.raises(PermanentError, match=r"batch 1 has NaN in column total.*nanvl\(total, NULL\)"):
            writer.write(batch, 1)
        writer.write(batch.selectExpr("customer", "nanvl(total, NULL) total"), 1)
        assert warehouse.rows()[0] == ("0", None)
    else:
        writer.write(batch, 1)
        assert str(warehouse.rows()[0][1]) == "nan"


def test_nan_in_a_key_is_refused_on_sqlite_but_not_postgresql(spark: SparkSession, warehouse: Warehouse) -> None:
    """SQLite refuses NaN in a key as NaN and not as a missing key; in PostgreSQL NaN is one key, and in both 0.0 and
    -0.0 are one key.
    """
    writer = warehouse.writer("v0001", 1, key=("total",))
    writer.raise_fence()
    for batch_id, zero in enumerate((0.0, -0.0)):
        writer.write(of_numbers(spark, zero), batch_id)
    if warehouse.sqlite:
        with pytest.raises(PermanentError, match="NaN in column total"):
            writer.write(of_numbers(spark, float("nan")), 2)
    else:
        for batch_id in (2, 3):
            writer.write(of_numbers(spark, float("nan")), batch_id)
    assert len(warehouse.rows()) == (1 if warehouse.sqlite else 2)


@pytest.mark.parametrize("warehouse", ["sqlite"], indirect=True)
def test_without_the_mark_for_refused_values_sqlite_stores_null_for_nan(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the mark for refused values, SQLite stores NULL instead of NaN."""
    monkeypatch.setattr(table_writer, "mark_refused", unmarked)
    writer = warehouse.writer("v0001", 1)
    writer.raise_fence()
    writer.write(of_numbers(spark, float("nan")), 0)
    assert warehouse.rows() == [("0", None)]


def test_a_rehearsal_refuses_an_invalid_utf8_key_before_a_deploy(spark: SparkSession, warehouse: Warehouse) -> None:
    """A rehearsal refuses a key that is not valid UTF-8 before a deploy, and Spark's error text contains the sentence
    with the reason.
    """
    sink = TableSink(warehouse.url, table="totals", key=["customer"])
    with pytest.raises(Exception, match="table totals: the batch has a key that is not valid UTF-8 in column customer"):
        sink.rehearse(of_bytes(spark, b"caf\xe9"))
    sink.rehearse(of_bytes(spark, b"cafe"))


def test_a_staging_table_without_the_column_of_the_mark_is_recreated(spark: SparkSession, warehouse: Warehouse) -> None:
    """A staging table of an older Streamkeeper without the mark's column is created anew, and the table itself keeps
    its rows.
    """
    writer = warehouse.writer("v0001", 1)
    writer.raise_fence()
    writer.write(of_bytes(spark, b"a"), 0)
    warehouse.execute(f"ALTER TABLE totals__staged DROP COLUMN {refused_values.MARK}")
    later = warehouse.writer("v0001", 2)
    later.raise_fence()
    later.write(of_bytes(spark, b"b"), 1)
    assert warehouse.rows() == [("a", 1), ("b", 1)]
