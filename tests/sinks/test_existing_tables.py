"""Tests that an existing table is compared with the query's columns and key before a driver writes to it."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest
from sqlalchemy import BigInteger, Column, Connection, MetaData, Table, Text, create_engine

from streamkeeper.errors import OutputUnfit
from streamkeeper.sinks.columns import TableColumn, converters, find_differences, refuse_differences

FITS = "CREATE TABLE totals (shop TEXT NOT NULL, day TEXT NOT NULL, total BIGINT, PRIMARY KEY ({key}))"


@pytest.fixture
def connection() -> Iterator[Connection]:
    with create_engine("sqlite://").connect() as opened:
        yield opened


def wanted() -> Table:
    key = [Column(name, Text(), primary_key=True) for name in ("shop", "day")]
    return Table("totals", MetaData(), *key, Column("total", BigInteger()))


def test_find_differences_returns_none_for_a_missing_table(connection: Connection) -> None:
    """For a missing table ``find_differences`` returns None, not an empty list."""
    assert find_differences(connection, wanted()) is None


@pytest.mark.parametrize("key", ["shop, day", "day, shop"])
def test_the_order_of_a_key_is_no_difference(connection: Connection, key: str) -> None:
    """A key with its columns in a different order is no difference, because it identifies the same rows."""
    connection.exec_driver_sql(FITS.format(key=key))
    assert find_differences(connection, wanted()) == []


@pytest.mark.parametrize("key", ["shop", "day", "shop, day, total"])
def test_another_key_is_a_difference(connection: Connection, key: str) -> None:
    """A table with a different key, which would merge rows or keep two with one key, differs, and the message names
    both keys.
    """
    connection.exec_driver_sql(FITS.format(key=key))
    found = ", ".join(sorted(key.split(", ")))
    assert find_differences(connection, wanted()) == [f"its key is ({found}), but the query's key is (day, shop)"]


def test_columns_that_differ_are_named(connection: Connection) -> None:
    """Each missing, additional or differently typed column is reported as one difference."""
    connection.exec_driver_sql(
        "CREATE TABLE totals (shop TEXT NOT NULL, day TEXT NOT NULL, sum TEXT, total TEXT, PRIMARY KEY (shop, day))"
    )
    connection.exec_driver_sql("ALTER TABLE totals DROP COLUMN total")
    assert find_differences(connection, wanted()) == ["total is missing in the table", "sum is in the table only"]
    connection.exec_driver_sql("ALTER TABLE totals RENAME COLUMN sum TO total")
    assert find_differences(connection, wanted()) == ["total is TEXT in the table, but BIGINT in the query"]


@pytest.mark.parametrize("differences", [["b is missing in the table", "c is in the table only"], [], None])
def test_a_table_that_differs_is_refused(differences: list[str] | None) -> None:
    """A table with differences is refused with all of them; one without differences and a missing one are accepted."""
    if not differences:
        refuse_differences(wanted(), differences)
        return
    with pytest.raises(OutputUnfit) as refused:
        refuse_differences(wanted(), differences)
    told = "table totals does not fit the query: b is missing in the table; c is in the table only"
    assert refused.value.message == told


@pytest.mark.parametrize(("dialect", "decimal"), [("sqlite", "1.10"), ("postgresql", Decimal("1.10"))])
def test_decimals_are_passed_as_text_only_to_sqlite(dialect: str, decimal: object) -> None:
    """Decimals are passed to SQLite as text, because it would store them as floats; PostgreSQL gets them unchanged, and
    strings are unchanged in both.
    """
    columns = [TableColumn(name="price", kind="decimal", precision=4, scale=2), TableColumn(name="shop", kind="string")]
    price, shop = converters(columns, dialect)
    assert (price(Decimal("1.10")) if price else Decimal("1.10")) == decimal
    assert shop is None
