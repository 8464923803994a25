"""The columns of a table: conversion of a DataFrame's schema to a database's types, and of its values to the database's
values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from streamkeeper.errors import InvalidInput, OutputUnfit, Unsupported

if TYPE_CHECKING:
    from pyspark.sql.types import StructType
    from sqlalchemy import Connection, Table
    from sqlalchemy.types import TypeEngine

_KINDS = {
    "string": "string",
    "bigint": "long",
    "int": "int",
    "double": "double",
    "float": "float",
    "boolean": "boolean",
    "timestamp": "timestamp",
    "date": "date",
}


class TableColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a table."""

    name: str
    """Its name."""
    kind: str
    """Spark's short type name."""
    precision: int = 0
    """The precision of a decimal."""
    scale: int = 0
    """The scale of a decimal."""


def columns_of(schema: StructType, table: str) -> tuple[TableColumn, ...]:
    """Return the columns of a table for DataFrames with this schema; ``table``: the table's name, for errors.

    Raises Unsupported for an unsupported type, and InvalidInput for a reserved name. Both name the column.
    """
    return tuple(_column(field.name, field.dataType.simpleString(), table) for field in schema.fields)


def _column(name: str, spark_type: str, table: str) -> TableColumn:
    if name.startswith("_sk_"):
        raise InvalidInput(
            f"table {table}: the column name {name} is reserved",
            hint="rename the column, because Streamkeeper uses the prefix _sk_",
        )
    if spark_type in _KINDS:
        return TableColumn(name=name, kind=_KINDS[spark_type])
    if spark_type.startswith("decimal("):
        precision, scale = spark_type.removeprefix("decimal(").removesuffix(")").split(",")
        return TableColumn(name=name, kind="decimal", precision=int(precision), scale=int(scale))
    raise Unsupported(
        f"table {table}: column {name} has the unsupported type {spark_type}",
        hint="cast the column to string, long, int, double, float, boolean, timestamp, date or decimal",
    )


def database_type(column: TableColumn, dialect: str) -> TypeEngine[Any]:
    """Return the column's database type. SQLite has no exact decimal type, so the type is text there."""
    import sqlalchemy as sa

    match column.kind:
        case "string":
            return sa.Text()
        case "long":
            return sa.BigInteger()
        case "int":
            return sa.Integer()
        case "double":
            return sa.Double()
        case "float":
            return sa.REAL()
        case "boolean":
            return sa.Boolean()
        case "timestamp":
            return sa.DateTime(timezone=True)
        case "date":
            return sa.Date()
        case "decimal":
            return sa.Text() if dialect == "sqlite" else sa.Numeric(column.precision, column.scale)
        case _:
            raise Unsupported(f"column {column.name} has the type {column.kind}")


def converters(columns: Sequence[TableColumn], dialect: str) -> list[Callable[[Any], Any] | None]:
    """Return for each column the function that converts Spark's value to the database's value.

    The function is None for a column whose values need no conversion.
    """
    return [_converter(column, dialect) for column in columns]


def _converter(column: TableColumn, dialect: str) -> Callable[[Any], Any] | None:
    if column.kind == "timestamp":
        return _utc_without_zone if dialect == "sqlite" else _utc
    if column.kind == "decimal" and dialect == "sqlite":
        return _text
    return None


def _utc(value: datetime | None) -> datetime | None:
    # A Row's timestamp is naive, in the time zone of its Python process.
    return None if value is None else value.astimezone(UTC)


def _utc_without_zone(value: datetime | None) -> datetime | None:
    return None if value is None else value.astimezone(UTC).replace(tzinfo=None)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def find_differences(connection: Connection, table: Table) -> list[str] | None:
    """Return how the database's table of this name differs from ``table`` in columns and key.

    The result also lists the key columns whose collation treats different strings as equal. It is None if the database
    has no table of this name.
    """
    import sqlalchemy as sa

    inspector = sa.inspect(connection)
    if not inspector.has_table(table.name):
        return None
    dialect = connection.dialect
    wanted = {column.name: column.type.compile(dialect) for column in table.columns}
    found = {column["name"]: column["type"].compile(dialect) for column in inspector.get_columns(table.name)}
    differences = [f"{name} is missing in the table" for name in wanted if name not in found]
    differences += [f"{name} is in the table only" for name in found if name not in wanted]
    differences += [
        f"{name} is {found[name]} in the table, but {wanted[name]} in the query"
        for name in wanted
        if name in found and found[name] != wanted[name]
    ]
    old_key = sorted(inspector.get_pk_constraint(table.name)["constrained_columns"])
    new_key = sorted(column.name for column in table.primary_key)
    if old_key != new_key:
        differences.append(f"its key is ({', '.join(old_key)}), but the query's key is ({', '.join(new_key)})")
    return differences + find_merging_collations(connection, table)


def refuse_differences(table: Table, differences: list[str] | None) -> None:
    """Raise OutputUnfit if there are differences."""
    if differences:
        raise OutputUnfit(
            f"table {table.name} does not fit the query: {'; '.join(differences)}",
            hint=OutputUnfit.REMEDY,
        )


_ON_SQLITE = """
SELECT i.name, c.name, CASE c.coll WHEN 'BINARY' THEN NULL ELSE c.coll END
FROM pragma_index_list(:name) i, pragma_index_xinfo(i.name) c
WHERE i."unique" AND NOT i.partial AND c.key
"""
_ON_POSTGRESQL = """
SELECT i.indexrelid::text, a.attname, c.collname
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indcollation::oid[]) k(attnum, collation_id)
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
LEFT JOIN pg_collation c ON c.oid = k.collation_id AND NOT c.collisdeterministic
WHERE i.indrelid = to_regclass(:name) AND i.indisunique AND i.indpred IS NULL AND k.collation_id IS NOT NULL
"""


def find_merging_collations(connection: Connection, table: Table) -> list[str]:
    """Return a sentence for each text column of the key whose collation treats different strings as equal.

    All unique indexes on exactly the key's columns are checked, because an upsert names only columns, and the database
    may use any unique index on them. SQLite's BINARY and every deterministic collation of PostgreSQL distinguish any
    two strings.
    """
    import sqlalchemy as sa

    statement = _ON_SQLITE if connection.dialect.name == "sqlite" else _ON_POSTGRESQL
    indexes: dict[str, dict[str, str | None]] = {}
    for index, column, collation in connection.execute(sa.text(statement), {"name": table.name}):
        indexes.setdefault(index, {})[column] = collation
    texts = {column.name for column in table.primary_key if isinstance(column.type, sa.Text)}
    key = {column.name for column in table.primary_key}
    found = {
        (name, collation)
        for columns in indexes.values()
        if columns.keys() == key
        for name, collation in columns.items()
        if collation is not None and name in texts
    }
    return [
        f"its key compares {name} by the collation {collation}, which treats different strings as equal"
        for name, collation in sorted(found)
    ]
