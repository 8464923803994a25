"""Tests which types a TableSink stores on SQLite and PostgreSQL, with nested values as JSON, and which it refuses."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.errors import InvalidInput, StreamkeeperError, Unsupported
from streamkeeper.sinks.table import TableSink
from tests.sinks.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
AT = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)
NESTED = (
    "customer string, tags array<string>, counts map<int,double>,"
    " visit struct<at:timestamp,local:timestamp_ntz,day:date,price:decimal(20,2),none:string,raw:binary,n:tinyint>"
)
VISIT = (AT, AT.replace(tzinfo=None), AT.date(), Decimal("123456789012345678.01"), None, bytearray(b"\x00\xff"), 3)
AS_JSON = {
    "at": "2026-03-29T01:30:00.123456Z",
    "local": "2026-03-29T01:30:00.123456",
    "day": "2026-03-29",
    "price": 123456789012345678.01,
    "none": None,
    "raw": "AP8=",
    "n": 3,
}


def write(warehouse: Warehouse, spark: SparkSession, rows: list[tuple[Any, ...]], schema: str, batch: int = 0) -> None:
    writer = warehouse.writer("v0001", batch + 1)
    writer.raise_fence()
    writer.write(spark.createDataFrame(rows, schema), batch)


def plain(value: Any) -> Any:
    """Return a stored JSON value as Python objects: PostgreSQL's client decodes it, SQLite's returns text."""
    return json.loads(value) if isinstance(value, str) else value


def test_small_integers_bytes_and_local_times_are_read_back_unchanged(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    """Bytes, small integers and timestamps without a zone are stored unchanged, NULL included, and the columns fit the
    table again under the next epoch.
    """
    local = AT.replace(tzinfo=None)
    schema = "customer string, b tinyint, s smallint, raw binary, at timestamp_ntz"
    for batch in (0, 1):
        write(warehouse, spark, [("a", -128, 32767, bytearray(b"\x00\xff"), local), ("b", *[None] * 4)], schema, batch)
    stored = "2026-03-29 01:30:00.123456" if warehouse.sqlite else local
    assert warehouse.rows() == [("a", -128, 32767, b"\x00\xff", stored), ("b", *[None] * 4)]


def test_nested_values_are_stored_as_json(spark: SparkSession, warehouse: Warehouse) -> None:
    """Arrays, maps and structs become JSON with every field, also those that are NULL, and with instants in UTC to the
    microsecond, whatever the time zone of the session; a NULL stays NULL.
    """
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        rows = [("a", ["x", None, "é\"'"], {1: 0.5}, VISIT), ("b", [], {}, None)]
        write(warehouse, spark, rows, NESTED)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    first, second = warehouse.rows()
    assert [plain(value) for value in first[1:]] == [["x", None, "é\"'"], {"1": 0.5}, AS_JSON]
    assert [plain(value) for value in second[1:]] == [[], {}, None]


def test_json_keeps_all_digits_and_can_be_queried(spark: SparkSession, warehouse: Warehouse) -> None:
    """The database itself reads a field of a stored struct, with all digits of a decimal on PostgreSQL."""
    write(warehouse, spark, [("a", ["x"], {}, VISIT)], NESTED)
    path = "visit ->> '$.day'" if warehouse.sqlite else "visit ->> 'price'"
    assert warehouse.rows(f"SELECT {path} FROM totals") == [
        ("2026-03-29" if warehouse.sqlite else "123456789012345678.01",)
    ]


def test_a_later_row_replaces_the_nested_values_of_its_key(spark: SparkSession, warehouse: Warehouse) -> None:
    """A row replaces the nested values of the row with its key, and a replayed batch changes nothing."""
    schema = "customer string, tags array<string>"
    write(warehouse, spark, [("a", ["x"]), ("b", ["y"])], schema)
    write(warehouse, spark, [("a", ["z", "z"])], schema, 1)
    write(warehouse, spark, [("a", ["w"])], schema, 1)
    assert [(name, plain(tags)) for name, tags in warehouse.rows()] == [("a", ["z", "z"]), ("b", ["y"])]


def test_a_rebuilt_nested_value_is_compared_with_the_current_one(spark: SparkSession, warehouse: Warehouse) -> None:
    """A comparison before a cutover counts rows whose nested values differ, and shows both values as JSON."""
    schema = "customer string, visit struct<shop:string,n:int>"
    write(warehouse, spark, [("a", ("é", 1)), ("b", ("y", 2)), ("c", None)], schema, 4)
    shadow = warehouse.writer("v0002", 6, shadow=True)
    shadow.raise_fence()
    shadow.write(spark.createDataFrame([("a", ("é", 1)), ("b", ("y", 3)), ("c", None)], schema), 1)
    compared = shadow.compare()
    assert (compared.comparable, compared.only_old, compared.only_new, compared.differing) == (True, 0, 0, 1)
    ((row, column, old, new),) = compared.sample
    assert (row, column) == ("customer='b'", "visit")
    assert [json.loads(value) for value in (old, new)] == [{"shop": "y", "n": 2}, {"shop": "y", "n": 3}]


def test_the_order_of_a_maps_entries_is_no_difference_on_postgresql(spark: SparkSession, warehouse: Warehouse) -> None:
    """PostgreSQL compares maps by their entries; SQLite compares their text, in which the order counts."""
    frame = "SELECT 'a' customer, map('x', 1, 'y', 2) counts", "SELECT 'a' customer, map('y', 2, 'x', 1) counts"
    writer = warehouse.writer("v0001", 1)
    writer.raise_fence()
    writer.write(spark.sql(frame[0]), 0)
    shadow = warehouse.writer("v0002", 2, shadow=True)
    shadow.raise_fence()
    shadow.write(spark.sql(frame[1]), 0)
    assert shadow.compare().differing == (1 if warehouse.sqlite else 0)


def test_a_difference_in_the_last_digit_of_a_nested_number_is_shown(spark: SparkSession, warehouse: Warehouse) -> None:
    """A comparison shows nested values with all their digits, and no value that is equal."""
    prices = [f"SELECT 'a' customer, array(123456789012345678.0{digit}BD) price, array(1) n" for digit in (1, 2)]
    writer = warehouse.writer("v0001", 1)
    writer.raise_fence()
    writer.write(spark.sql(prices[0]), 0)
    shadow = warehouse.writer("v0002", 2, shadow=True)
    shadow.raise_fence()
    shadow.write(spark.sql(prices[1]), 0)
    compared = shadow.compare()
    assert compared.sample == (("customer='a'", "price", "[123456789012345678.01]", "[123456789012345678.02]"),)


@pytest.mark.parametrize("kind", ["binary", "timestamp_ntz", "smallint", "tinyint"])
def test_a_column_of_a_further_type_can_be_the_key(spark: SparkSession, warehouse: Warehouse, kind: str) -> None:
    """A key of bytes, of a local time or of a small integer is replaced by the row with the same value only."""
    first, second = {
        "binary": ("X'00FF'", "X'00FE'"),
        "timestamp_ntz": ("timestamp_ntz'2026-03-29 02:30:00'", "timestamp_ntz'2026-03-29 02:30:00.000001'"),
    }.get(kind, ("1", "2"))
    writer = warehouse.writer("v0001", 1)
    writer.raise_fence()
    for batch, total in enumerate((1, 5)):
        rows = f"SELECT cast({first} as {kind}) customer, {total} total"
        writer.write(spark.sql(f"{rows} UNION ALL SELECT cast({second} as {kind}), 7"), batch)
    assert sorted(total for _, total in warehouse.rows()) == [5, 7]


def test_a_rehearsal_of_nested_values_writes_nothing(spark: SparkSession, warehouse: Warehouse) -> None:
    """The rehearsal before a deploy stages nested values and leaves no table."""
    sink = TableSink(warehouse.url, table="totals", key=["customer"])
    sink.rehearse(spark.createDataFrame([("a", ["x"], {1: 0.5}, VISIT)], NESTED))
    assert warehouse.tables == set()


@pytest.mark.parametrize("warehouse", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
def test_columns_that_differ_only_in_case_stay_apart(spark: SparkSession, warehouse: Warehouse) -> None:
    """PostgreSQL keeps two columns whose names differ only in case, although Spark cannot tell them apart by name."""
    write(warehouse, spark, [("a", 1, 2, ["x"])], "customer string, total long, Total long, tags array<string>")
    assert warehouse.rows('SELECT customer, total, "Total", tags FROM totals') == [("a", 1, 2, ["x"])]


@pytest.mark.parametrize(
    ("query", "error", "text"),
    [
        ("'a' customer, interval '1' day wait", Unsupported, "column wait has the unsupported type interval day"),
        ("'a' customer, array(struct(NULL none)) s", Unsupported, "column s.none has the unsupported type void"),
        (
            "'a' customer, named_struct('n', map(date'2026-03-29', 1)) s",
            Unsupported,
            r"column s\.n is a map with keys of the type date",
        ),
        ("'a' customer, named_struct('x', 1, 'x', 2) s", Unsupported, "column s has two fields x"),
        ("array('a') customer, 1 n", InvalidInput, "key column customer is an array, a map or a struct"),
    ],
)
def test_a_type_that_cannot_be_stored_is_refused_by_the_path_of_its_column(
    spark: SparkSession, warehouse: Warehouse, query: str, error: type[StreamkeeperError], text: str
) -> None:
    """A type that the table or its JSON cannot store, and a nested key, are refused with the column's path before
    anything is written.
    """
    writer = warehouse.writer("v0001", 1)
    writer.raise_fence()
    with pytest.raises(error, match=text):
        writer.write(spark.sql(f"SELECT {query}"), 0)
    assert warehouse.tables == set()


def test_spark_writes_a_date_key_of_a_map_as_a_number_of_days(spark: SparkSession) -> None:
    """The fact behind the refusal of map keys: Spark's JSON has a date key as its days since 1970."""
    days = (date(2026, 3, 29) - date(1970, 1, 1)).days
    assert spark.sql("SELECT to_json(map(date'2026-03-29', 1))").collect()[0][0] == f'{{"{days}":1}}'
