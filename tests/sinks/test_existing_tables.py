"""A table that exists already is compared with the query's columns and key before a driver writes to it."""

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


def test_a_missing_table_differs_in_nothing(connection: Connection) -> None:
    """None, and not a list, says that the table does not exist."""
    assert find_differences(connection, wanted()) is None


@pytest.mark.parametrize("key", ["shop, day", "day, shop"])
def test_the_order_of_a_key_is_no_difference(connection: Connection, key: str) -> None:
    """The key identifies the same rows in each order."""
    connection.exec_driver_sql(FITS.format(key=key))
    assert find_differences(connection, wanted()) == []


@pytest.mark.parametrize("key", ["shop", "day", "shop, day, total"])
def test_another_key_is_a_difference(connection: Connection, key: str) -> None:
    """A table with another key would merge rows or keep two of one key; the message names both keys."""
    connection.exec_driver_sql(FITS.format(key=key))
    found = ", ".join(sorted(key.split(", ")))
    assert find_differences(connection, wanted()) == [f"its key is ({found}), but the query's key is (day, shop)"]


def test_columns_that_differ_are_named(connection: Connection) -> None:
    """Each missing, additional and differently typed column is one difference."""
    connection.exec_driver_sql(
        "CREATE TABLE totals (shop TEXT NOT NULL, day TEXT NOT NULL, sum TEXT, total TEXT, PRIMARY KEY (shop, day))"
    )
    connection.exec_driver_sql("ALTER TABLE totals DROP COLUMN total")
    assert find_differences(connection, wanted()) == ["total is missing in the table", "sum is in the table only"]
    connection.exec_driver_sql("ALTER TABLE totals RENAME COLUMN sum TO total")
    assert find_differences(connection, wanted()) == ["total is TEXT in the table, but BIGINT in the query"]


@pytest.mark.parametrize("differences", [["b is missing in the table", "c is in the table only"], [], None])
def test_a_table_that_differs_is_refused(differences: list[str] | None) -> None:
    """The refusal names every difference; a table without differences, and a missing one, pass."""
    if not differences:
        refuse_differences(wanted(), differences)
        return
    with pytest.raises(OutputUnfit) as refused:
        refuse_differences(wanted(), differences)
    told = "table totals does not fit the query: b is missing in the table; c is in the table only"
    assert refused.value.message == told


@pytest.mark.parametrize(("dialect", "decimal"), [("sqlite", "1.10"), ("postgresql", Decimal("1.10"))])
def test_only_a_database_without_decimals_gets_them_as_text(dialect: str, decimal: object) -> None:
    """SQLite would store a decimal as a float; a string stays as it is in both."""
    columns = [TableColumn(name="price", kind="decimal", precision=4, scale=2), TableColumn(name="shop", kind="string")]
    price, shop = converters(columns, dialect)
    assert (price(Decimal("1.10")) if price else Decimal("1.10")) == decimal
    assert shop is None
