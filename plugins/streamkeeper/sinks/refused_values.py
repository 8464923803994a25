"""Refuse batches with values that a table would silently store as other values, and write nested values as JSON.

Spark's plan marks each row that has such a value. Python could not do so, because there the invalid UTF-8 bytes of a
string have already become U+FFFD. The mark is staged with the row, and the driver checks for marks before it takes over
the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from streamkeeper.errors import PermanentError
from streamkeeper.sinks.columns import JSON, TableColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from sqlalchemy import Connection, Table

MARK = "_sk_refused"
_FLOATS = ("double", "float")
_TIME = "concat('yyyy-MM-dd', chr(39), 'T', chr(39), 'HH:mm:ss.SSSSSS{zone}')"
_JSON_FORM = (
    "map('ignoreNullFields', 'false', 'timeZone', 'UTC',"
    f" 'timestampFormat', {_TIME.format(zone='XXX')}, 'timestampNTZFormat', {_TIME.format(zone='')})"
)
"""Spark's options for JSON that keeps every field, and every instant to the microsecond. A quotation mark within a
literal is read differently under different settings of a session, so it is written as ``chr(39)``.
"""


def mark_refused(batch: DataFrame, columns: Sequence[TableColumn], key: Collection[str], dialect: str) -> DataFrame:
    """Return the batch with arrays, maps and structs as JSON text, and with one more column, which marks the rows with
    a refused value. The columns keep their order, and get names of their own: Spark cannot tell columns apart by name
    that differ only in case, but PostgreSQL can.

    The mark is the position of the first column whose value is refused, or NULL. A key string that is not UTF-8 is
    refused, because different such strings would become one key. NaN is refused in SQLite, because SQLite would store
    NULL instead.
    """
    found: list[str] = []
    stored: list[str] = []
    for position, column in enumerate(columns):
        value = f"c{position}"
        stored.append(f"to_json({value}, {_JSON_FORM}) AS {value}" if column.kind == JSON else value)
        if column.kind == "string" and column.name in key:
            found.append(f"WHEN NOT is_valid_utf8({value}) THEN {position}")
        elif column.kind in _FLOATS and dialect == "sqlite":
            found.append(f"WHEN isnan({value}) THEN {position}")
    mark = f"CASE {' '.join(found)} END" if found else "CAST(NULL AS INT)"
    named = batch.toDF(*(f"c{position}" for position in range(len(columns))))
    return named.selectExpr(*stored, f"{mark} AS {MARK}")


def check_refused(
    connection: Connection, staged: Table, mine: Any, columns: Sequence[Any], table: str, batch_id: int
) -> None:
    """Raise PermanentError when a staged row is marked.

    ``connection``: the open transaction.
    ``staged``: the staging table.
    ``mine``: the condition that selects this write's rows.
    ``columns``: the columns of the output table, in order.
    ``table``: the output table's name, for errors.
    ``batch_id``: the batch's number, for errors.
    """
    import sqlalchemy as sa

    mark = staged.c[MARK]
    position = connection.execute(sa.select(mark).where(mine, mark.is_not(None)).limit(1)).scalar_one_or_none()
    if position is not None:
        column = columns[position]
        raise refusal(f"table {table}: batch {batch_id}", column.name, text=isinstance(column.type, sa.Text))


def refusal(where: str, name: str, *, text: bool) -> PermanentError:
    """Return the error for a refused value of the column ``name``, with the remedy.

    ``where``: the table and batch, for the message; ``text``: whether the column contains strings.
    """
    if text:
        return PermanentError(
            f"{where} has a key that is not valid UTF-8 in column {name}: the invalid bytes would be"
            " replaced, and different keys could become one row",
            hint=f"apply make_valid_utf8, try_validate_utf8 or hex to {name} in the query",
        )
    return PermanentError(
        f"{where} has NaN in column {name}, which SQLite would store as NULL",
        hint=f"use nanvl({name}, NULL) in the query, or write to PostgreSQL, which keeps NaN",
    )
