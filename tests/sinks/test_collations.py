"""Tests that an existing table is refused if its key compares two different strings as equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamkeeper.errors import OutputUnfit
from streamkeeper.sinks import columns
from streamkeeper.sinks.table import TableSink
from tests.sinks.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NAMES = [("Ada", 1), ("ADA", 2), ("ada", 3)]
IGNORING_CASE = (
    "CREATE COLLATION IF NOT EXISTS no_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
)


def create(warehouse: Warehouse, key: str, *more: str) -> None:
    """Create the table ``totals``; ``key`` is the definition of its key column. Column collations of PostgreSQL are
    part of the type, which is compared separately.
    """
    if not warehouse.sqlite:
        warehouse.execute(IGNORING_CASE)
    merging = "NOCASE" if warehouse.sqlite else "no_case"
    exact = "COLLATE BINARY" if warehouse.sqlite else ""
    for each in (f"CREATE TABLE totals (customer TEXT {key}, total BIGINT)", *more):
        warehouse.execute(each.format(merging=merging, exact=exact))


def write_one_by_one(spark: SparkSession, warehouse: Warehouse) -> None:
    writer = warehouse.writer("v0001", 1)
    writer.raise_fence()
    for batch_id, row in enumerate(NAMES):
        writer.write(spark.createDataFrame([row], "customer string, total long"), batch_id)


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("COLLATE {merging} PRIMARY KEY", ()),
        ("NOT NULL PRIMARY KEY", ("CREATE UNIQUE INDEX more ON totals (customer COLLATE {merging})",)),
    ],
)
def test_a_key_that_merges_strings_is_refused(
    spark: SparkSession, warehouse: Warehouse, key: str, more: tuple[str, ...]
) -> None:
    """A rehearsal and a writer refuse, before the first row, a table whose key or second unique index merges different
    strings, and name the column and the collation.
    """
    create(warehouse, key, *more)
    wanted = r"table totals does not fit the query: .*its key compares customer by the collation (NOCASE|no_case)"
    with pytest.raises(OutputUnfit, match=wanted):
        write_one_by_one(spark, warehouse)
    batch = spark.createDataFrame([], "customer string, total long")
    with pytest.raises(OutputUnfit, match=wanted):
        TableSink(warehouse.url, table="totals", key=["customer"]).rehearse(batch)
    assert warehouse.rows() == []


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("NOT NULL PRIMARY KEY", ()),
        ("{exact} PRIMARY KEY", ("CREATE INDEX more ON totals (customer COLLATE {merging})",)),
        ("NOT NULL PRIMARY KEY", ("CREATE UNIQUE INDEX more ON totals (total, customer COLLATE {merging})",)),
    ],
)
def test_a_key_whose_collation_distinguishes_strings_is_accepted(
    spark: SparkSession, warehouse: Warehouse, key: str, more: tuple[str, ...]
) -> None:
    """A table whose key distinguishes strings is accepted, even if an index that no upsert uses has a merging
    collation.
    """
    create(warehouse, key, *more)
    write_one_by_one(spark, warehouse)
    assert sorted(warehouse.rows("SELECT * FROM totals")) == sorted(NAMES)


def test_without_the_check_of_collations_three_keys_become_one_row(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the check of collations, three different keys become one row, in SQLite by the key's
    own collation and in PostgreSQL by a second unique index.
    """
    monkeypatch.setattr(columns, "find_merging_collations", lambda *_: [])
    if warehouse.sqlite:
        create(warehouse, "COLLATE {merging} PRIMARY KEY")
    else:
        index = "CREATE UNIQUE INDEX more ON totals (customer COLLATE {merging})"
        create(warehouse, "NOT NULL PRIMARY KEY", index)
    write_one_by_one(spark, warehouse)
    assert [total for _, total in warehouse.rows()] == [3]


@pytest.mark.postgres
@pytest.mark.parametrize("warehouse", ["postgresql"], indirect=True)
def test_a_citext_column_is_refused_as_a_different_type(warehouse: Warehouse) -> None:
    """PostgreSQL's ``CITEXT``, which ignores case, is refused as a type that differs from ``TEXT``."""
    if not warehouse.rows("SELECT 1 FROM pg_available_extensions WHERE name = 'citext'"):
        pytest.skip("this PostgreSQL has no citext")
    warehouse.execute("CREATE EXTENSION citext", "CREATE TABLE totals (customer CITEXT PRIMARY KEY, total BIGINT)")
    import sqlalchemy as sa

    from streamkeeper.sinks.staging import data_table

    wanted = [columns.TableColumn(name="customer", kind="string"), columns.TableColumn(name="total", kind="long")]
    table = data_table(sa.MetaData(), "totals", wanted, ["customer"], "postgresql")
    with warehouse.engine.connect() as connection:
        assert columns.find_differences(connection, table) == ["customer is CITEXT in the table, but TEXT in the query"]
