"""Compare the output of a new checkpoint version with the current output, before a cutover.

Values are equal only if all their digits are equal. A sum of ``double`` values that were added in another order may
differ in the last digit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

from msgspec import structs

from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.sinks.sql_names import in_backticks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from sqlalchemy import ColumnElement, Connection, Table

__all__ = ["OutputComparison", "compare_frames", "compare_rows_of_tables", "compare_tables"]

SAMPLED = 10


def compare_tables(
    connection: Connection, old_name: str, new_name: str, *, may_differ: Collection[str] = ()
) -> OutputComparison:
    """Compare the rows of two tables by their common key, in the snapshot that the connection's transaction sees.

    Only columns that both tables have with the same type are compared. The result lists the others with both types,
    except those in ``may_differ``. Tables cannot be compared if one is missing, or if their keys differ in names or
    types.

    ``may_differ``: columns whose differences are only counted; a row that differs only in them counts as equal.
    """
    import sqlalchemy as sa

    if missing := _missing_tables(connection, old_name, new_name):
        return missing
    old, new = _tables(connection, old_name, new_name)
    sizes = OutputComparison(old_rows=_count(connection, old), new_rows=_count(connection, new))
    key = sorted(_names(new.primary_key))
    was, now = (_types(connection, table) for table in (old, new))
    common = [name for name, kind in now.items() if was.get(name) == kind]
    if sorted(_names(old.primary_key)) != key or not set(key) <= set(common):
        why = f"the key is {_key_text(connection, new)}, it was {_key_text(connection, old)}"
        return structs.replace(sizes, comparable=False, why=why)
    same_key = sa.and_(*(old.c[name] == new.c[name] for name in key))
    others = [name for name in common if name not in key]
    strict = [name for name in others if name not in may_differ]
    differ = sa.or_(sa.false(), *(old.c[name].is_distinct_from(new.c[name]) for name in strict))
    any_differs = sa.or_(sa.false(), *(old.c[name].is_distinct_from(new.c[name]) for name in others))
    only_old = ~sa.exists().where(same_key).correlate(old)
    only_new = ~sa.exists().where(same_key).correlate(new)
    pairs = old.join(new, same_key)
    differing = _count(connection, pairs, differ)
    # Columns that may differ are shown only if no other column differs.
    shown = (differ, strict) if differing else (any_differs, others)
    return structs.replace(
        sizes,
        only_old=_count(connection, old, only_old),
        only_new=_count(connection, new, only_new),
        differing=differing,
        allowed=tuple(name for name in others if name in may_differ),
        uncompared=_left_out(was, now, may_differ),
        columns=_count_columns(connection, pairs, (old, new), others),
        sample=_sample_tables(connection, (old, new), (pairs, shown[0], only_old, only_new), (key, shown[1])),
    )


def compare_rows_of_tables(
    connection: Connection,
    old_name: str,
    new_name: str,
    *,
    may_differ: Collection[str] = (),
    ignored: Collection[str] = (),
) -> OutputComparison:
    """Compare the rows of two tables without a key as multisets, in the snapshot that the connection's transaction
    sees. The result is that of ``compare_frames``; a row of its ``sample`` is named by its values.

    ``may_differ``: columns that are not compared, and are named in the result. ``ignored``: further columns that are
    not compared.
    """
    import sqlalchemy as sa

    if missing := _missing_tables(connection, old_name, new_name):
        return missing
    old, new = _tables(connection, old_name, new_name)
    was, now = (
        {name: kind for name, kind in _types(connection, table).items() if name not in ignored} for table in (old, new)
    )
    common, sizes = _common_columns(was, now, may_differ)
    sizes = structs.replace(sizes, old_rows=_count(connection, old), new_rows=_count(connection, new))
    if not common:
        return sizes
    counted = _count_rows(old, new, common)
    before, after = counted.c._sk_old, counted.c._sk_new
    more = sa.case((before > after, before - after), else_=0), sa.case((after > before, after - before), else_=0)
    only_old, only_new = connection.execute(sa.select(*(sa.func.coalesce(sa.func.sum(each), 0) for each in more))).one()
    found = connection.execute(sa.select(counted).where(before != after).limit(SAMPLED))
    return structs.replace(
        sizes,
        only_old=int(only_old),
        only_new=int(only_new),
        uncompared=_left_out(was, now, may_differ),
        sample=tuple((named_row(common, row), "", str(row[-2]), str(row[-1])) for row in found),
    )


def _missing_tables(connection: Connection, *names: str) -> OutputComparison | None:
    """Return the result of a comparison if a table is missing, else None."""
    import sqlalchemy as sa

    missing = [name for name in names if not sa.inspect(connection).has_table(name)]
    return OutputComparison(comparable=False, why=f"there is no table {', '.join(missing)} yet") if missing else None


def _tables(connection: Connection, *names: str) -> list[Table]:
    """Return tables with the columns that they have in the database."""
    import sqlalchemy as sa

    return [sa.Table(name, sa.MetaData(), autoload_with=connection) for name in names]


def _count_rows(old: Table, new: Table, columns: list[str]) -> Any:
    """Return each different row of two tables with the number of its occurrences in both."""
    import sqlalchemy as sa

    sides = [
        sa.select(*(table.c[name] for name in columns), sa.literal(a).label("_sk_a"), sa.literal(b).label("_sk_b"))
        for table, a, b in ((old, 1, 0), (new, 0, 1))
    ]
    rows = sa.union_all(*sides).subquery()
    groups = [rows.c[name] for name in columns]
    counts = sa.func.sum(rows.c._sk_a).label("_sk_old"), sa.func.sum(rows.c._sk_b).label("_sk_new")
    shown = [_shown(column).label(column.name) for column in groups]
    return sa.select(*shown, *counts).group_by(*groups).subquery()


def compare_frames(
    old: DataFrame | None, new: DataFrame | None, *, may_differ: Collection[str] = ()
) -> OutputComparison:
    """Compare the rows of two outputs as multisets. An argument is None if that output has no batch yet.

    Only columns that both outputs have with the same type are compared, except those in ``may_differ``. Rows have no
    key here, so a changed row counts twice: its old form as missing, its new form as additional.

    In the result's ``sample``, the key is the row's compared columns as JSON, and the column is empty. The old value is
    the number of the row's occurrences in the old output; the new value is their number in the new output.
    """
    if old is None or new is None:
        missing = [name for name, table in (("old", old), ("new", new)) if table is None]
        return OutputComparison(comparable=False, why=f"the {' and the '.join(missing)} output has no batch yet")
    was, now = dict(old.dtypes), dict(new.dtypes)
    common, found = _common_columns(was, now, may_differ)
    if not common:
        return found
    compared = _compare_rows(old, new, [in_backticks(name) for name in common])
    return structs.replace(compared, allowed=found.allowed, uncompared=_left_out(was, now, may_differ))


def _common_columns(
    old: Mapping[str, str], new: Mapping[str, str], may_differ: Collection[str]
) -> tuple[list[str], OutputComparison]:
    """Return the columns by which two multisets of rows are compared, and the beginning of the result. Without such a
    column, it says why the rows cannot be compared.
    """
    both = [name for name, kind in new.items() if old.get(name) == kind]
    common = [name for name in both if name not in may_differ]
    allowed = tuple(name for name in both if name in may_differ)
    if common:
        return common, OutputComparison(allowed=allowed)
    why = "every column that they have in common may differ" if both else "they have no column in common"
    return [], OutputComparison(comparable=False, why=f"{why}, by name and type", allowed=allowed)


def _left_out(old: Mapping[str, str], new: Mapping[str, str], may_differ: Collection[str]) -> tuple[str, ...]:
    """Return the columns that cannot be compared, each with its new and old type."""
    apart = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name) and name not in may_differ]
    return tuple(f"{name} (it is {new.get(name, 'missing')}, it was {old.get(name, 'missing')})" for name in apart)


def _compare_rows(old: DataFrame, new: DataFrame, columns: list[str]) -> OutputComparison:
    counted = (
        old.selectExpr(*columns, "1 AS _sk_old", "0 AS _sk_new")
        .unionAll(new.selectExpr(*columns, "0 AS _sk_old", "1 AS _sk_new"))
        .groupBy(*columns)
        .agg({"_sk_old": "sum", "_sk_new": "sum"})
        .selectExpr(
            f"to_json(struct({', '.join(columns)})) AS row", "`sum(_sk_old)` AS before", "`sum(_sk_new)` AS after"
        )
    )
    surplus = ("sum(greatest(before - after, 0))", "sum(greatest(after - before, 0))")
    total = counted.selectExpr("sum(before)", "sum(after)", *surplus).first()
    old_rows, new_rows, only_old, only_new = (int(count or 0) for count in total or (0, 0, 0, 0))
    found = counted.where("before <> after").limit(SAMPLED).collect() if only_old or only_new else []
    return OutputComparison(
        old_rows=old_rows,
        new_rows=new_rows,
        only_old=only_old,
        only_new=only_new,
        sample=tuple((row, "", str(before), str(after)) for row, before, after in found),
    )


def _sample_tables(
    connection: Connection,
    tables: tuple[Table, Table],
    found: tuple[Any, ColumnElement[bool], ColumnElement[bool], ColumnElement[bool]],
    columns: tuple[list[str], list[str]],
) -> tuple[tuple[str, str, str, str], ...]:
    """Return sample differences: first values that differ, then rows that exist on one side only. The latter name no
    column.
    """
    import sqlalchemy as sa

    (old, new), (pairs, differ, only_old, only_new), (key, others) = tables, found, columns
    sample: list[tuple[str, str, str, str]] = []
    both: list[Any] = [*(new.c[name] for name in key)]
    for name in others:
        both += [_shown(old.c[name]), _shown(new.c[name]), old.c[name].is_distinct_from(new.c[name])]
    for row in connection.execute(sa.select(*both).select_from(pairs).where(differ).limit(SAMPLED)):
        values = row[len(key) :]
        changed = zip(others, values[::3], values[1::3], values[2::3], strict=True)
        row_name = named_row(key, row)
        sample += [(row_name, name, _text(was), _text(now)) for name, was, now, differs in changed if differs]
    for table, condition, sides in ((old, only_old, ("there", "missing")), (new, only_new, ("missing", "there"))):
        rows = connection.execute(sa.select(*(table.c[name] for name in key)).where(condition).limit(SAMPLED))
        sample += [(named_row(key, row), "", *sides) for row in rows]
    return tuple(sample[:SAMPLED])


def _count_columns(
    connection: Connection, pairs: Any, tables: tuple[Table, Table], columns: list[str]
) -> dict[str, int]:
    """Return column -> the number of row pairs in which it differs, without columns that never differ."""
    import sqlalchemy as sa

    if not columns:
        return {}
    old, new = tables
    differs = [sa.case((old.c[name].is_distinct_from(new.c[name]), 1), else_=0) for name in columns]
    counts = connection.execute(sa.select(*(sa.func.sum(case) for case in differs)).select_from(pairs)).one()
    return {name: int(count) for name, count in zip(columns, counts, strict=True) if count}


def _names(columns: Iterable[Any]) -> list[str]:
    """Return plain strings: a reflected column's name is of a SQLAlchemy class, which JSON encoders refuse."""
    return [str(column.name) for column in columns]


def named_row(key: Iterable[str], row: Iterable[object]) -> str:
    """Return text that identifies a row by its key, such as ``customer='a', minute='2026-03-01 00:07:00+00:00'``.

    ``key``: the key's column names. ``row``: the row's values, the key's values first; further values are ignored.
    """
    pairs = zip(key, row, strict=False)
    return ", ".join(f"{name}={_plain(value)!r}" for name, value in pairs)


def _plain(value: object) -> object:
    # The repr of a datetime names Python classes.
    return str(value) if isinstance(value, date) else value


def _shown(column: Any) -> Any:
    """Return a column as it is shown: JSON as the database's text, because Python's numbers would lose digits."""
    import sqlalchemy as sa

    return sa.cast(column, sa.Text) if isinstance(column.type, sa.JSON) else column


def _text(value: object) -> str:
    return "NULL" if value is None else str(value)


def _count(connection: Connection, source: Any, condition: Any = None) -> int:
    import sqlalchemy as sa

    statement = sa.select(sa.func.count()).select_from(source)
    return int(connection.execute(statement if condition is None else statement.where(condition)).scalar_one())


def _type(connection: Connection, column: Any) -> str:
    return str(column.type.compile(connection.dialect))


def _types(connection: Connection, table: Table) -> dict[str, str]:
    return {str(column.name): _type(connection, column) for column in table.columns}


def _key_text(connection: Connection, table: Table) -> str:
    names = sorted(f"{column.name} {_type(connection, column)}" for column in table.primary_key)
    return ", ".join(names) or "none"
