"""The columns of a table: conversion of a DataFrame's schema to a database's types, and of its values to the database's
values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from streamkeeper.errors import InvalidInput, OutputUnfit, Unsupported

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType
    from sqlalchemy import Column, ColumnElement, Connection, Table
    from sqlalchemy.types import TypeEngine

_KINDS = {
    "string": "string",
    "bigint": "long",
    "int": "int",
    "smallint": "short",
    "tinyint": "byte",
    "double": "double",
    "float": "float",
    "boolean": "boolean",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "date": "date",
    "binary": "binary",
}
_JSON_KEYS = frozenset({"string", "bigint", "int", "smallint", "tinyint", "boolean"})
"""The types of map keys that Spark writes to JSON as a reader expects them. A date, for example, becomes a number of
days.
"""
JSON = "json"
"""The kind of a column of arrays, maps or structs, which is stored as JSON."""


class TableColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a table."""

    name: str
    """Its name."""
    kind: str
    """Spark's short type name, or ``json`` for arrays, maps and structs."""
    precision: int = 0
    """The precision of a decimal."""
    scale: int = 0
    """The scale of a decimal."""


def columns_of(schema: StructType, table: str, key: Sequence[str]) -> tuple[TableColumn, ...]:
    """Return the columns of a table for DataFrames with this schema; ``table``: the table's name, for errors.

    Raises Unsupported for an unsupported type. Raises InvalidInput for a reserved name, and for a column of ``key``
    that is missing or is an array, a map or a struct. Both errors name the column.
    """
    columns = tuple(_column(field.name, field.dataType, table) for field in schema.fields)
    missing = [name for name in key if name not in {column.name for column in columns}]
    if missing:
        raise InvalidInput(f"table {table}: the query has no key column {', '.join(missing)}")
    nested = [column.name for column in columns if column.kind == JSON and column.name in key]
    if nested:
        raise InvalidInput(
            f"table {table}: key column {nested[0]} is an array, a map or a struct",
            hint="put the fields that identify a row into columns of their own, and use those as the key",
        )
    return columns


def _column(name: str, data_type: DataType, table: str) -> TableColumn:
    if name.startswith("_sk_"):
        raise InvalidInput(
            f"table {table}: the column name {name} is reserved",
            hint="rename the column, because Streamkeeper uses the prefix _sk_",
        )
    scalar = _scalar(name, data_type.simpleString())
    if scalar is not None:
        return scalar
    _must_fit_json(name, data_type, table)
    return TableColumn(name=name, kind=JSON)


def _scalar(name: str, spark_type: str) -> TableColumn | None:
    """Return the column of a scalar type that a table stores as such; None for any other type."""
    if spark_type in _KINDS:
        return TableColumn(name=name, kind=_KINDS[spark_type])
    if spark_type.startswith("decimal("):
        precision, scale = spark_type.removeprefix("decimal(").removesuffix(")").split(",")
        return TableColumn(name=name, kind="decimal", precision=int(precision), scale=int(scale))
    return None


def _must_fit_json(name: str, data_type: Any, table: str) -> None:
    """Raise Unsupported unless JSON keeps all values of this array, map or struct; ``name``: its path in the row."""
    spark_type = data_type.simpleString()
    match data_type.typeName():
        case "array":
            _must_fit_json(name, data_type.elementType, table)
        case "map":
            key = data_type.keyType.simpleString()
            if key not in _JSON_KEYS:
                raise Unsupported(
                    f"table {table}: column {name} is a map with keys of the type {key}, which JSON cannot keep",
                    hint="cast the keys to string",
                )
            _must_fit_json(name, data_type.valueType, table)
        case "struct":
            twice = [field for field, count in Counter(data_type.fieldNames()).items() if count > 1]
            if twice:
                raise Unsupported(
                    f"table {table}: column {name} has two fields {twice[0]}, of which JSON would keep one",
                    hint="give each field a name of its own",
                )
            for field in data_type.fields:
                _must_fit_json(f"{name}.{field.name}", field.dataType, table)
        case _ if _scalar(name, spark_type) is None:
            raise Unsupported(
                f"table {table}: column {name} has the unsupported type {spark_type}", hint="cast it to string"
            )


def database_type(column: TableColumn, dialect: str) -> TypeEngine[Any]:
    """Return the column's database type. SQLite has no types for exact decimals and JSON, so they are text there."""
    import sqlalchemy as sa
    from sqlalchemy.dialects.postgresql import JSONB

    match column.kind:
        case "string":
            return sa.Text()
        case "long":
            return sa.BigInteger()
        case "int":
            return sa.Integer()
        case "short" | "byte":
            return sa.SmallInteger()
        case "double":
            return sa.Double()
        case "float":
            return sa.REAL()
        case "boolean":
            return sa.Boolean()
        case "timestamp":
            return sa.DateTime(timezone=True)
        case "timestamp_ntz":
            return sa.DateTime(timezone=False)
        case "date":
            return sa.Date()
        case "decimal":
            return sa.Text() if dialect == "sqlite" else sa.Numeric(column.precision, column.scale)
        case "binary":
            return sa.LargeBinary()
        case kind if kind == JSON:
            return sa.Text() if dialect == "sqlite" else JSONB()
        case _:
            raise Unsupported(f"column {column.name} has the type {column.kind}")


def staged_type(column: TableColumn, dialect: str) -> TypeEngine[Any]:
    """Return the column's type in the staging table, where JSON is still text."""
    import sqlalchemy as sa

    return sa.Text() if column.kind == JSON else database_type(column, dialect)


def as_stored(staged: Column[Any], stored: Column[Any]) -> ColumnElement[Any]:
    """Return a column of the staging table, with a cast if it is text there and JSON in the output's table."""
    import sqlalchemy as sa

    return staged if isinstance(stored.type, type(staged.type)) else sa.cast(staged, stored.type)


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
    if column.kind == "binary" and dialect == "postgresql":
        return _hex
    return None


def _utc(value: datetime | None) -> datetime | None:
    # A Row's timestamp is naive, in the time zone of its Python process.
    return None if value is None else value.astimezone(UTC)


def _utc_without_zone(value: datetime | None) -> datetime | None:
    return None if value is None else value.astimezone(UTC).replace(tzinfo=None)


def _hex(value: bytes | None) -> str | None:
    # PostgreSQL reads this form under every setting; psycopg's own form depends on standard_conforming_strings.
    return None if value is None else "\\x" + bytes(value).hex()


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
    if old_key and not new_key:
        differences.append(f"it has the key ({', '.join(old_key)}), but the rows of this output have no key")
    elif old_key != new_key:
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
