"""What runs in Spark's Python workers for a TableSink: a partition's rows into the staging table, or nowhere.

Everything here is a module-level function with plain arguments: a worker imports it, nothing is pickled by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from streamkeeper.errors import Fenced, OutputLost, PermanentError
from streamkeeper.sinks.columns import TableColumn, converters, database_type
from streamkeeper.sinks.comparison import named_row
from streamkeeper.sinks.databases import open_engine
from streamkeeper.sinks.refused_values import MARK, refusal

if TYPE_CHECKING:
    from sqlalchemy import Connection, MetaData, Table

CHUNK_ROWS = 5000
OUTPUTS = "streamkeeper_outputs"


class StagingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One write of one batch: ``token`` names the write, so that rows of an earlier try are never taken for its own.

    ``in_shadow``: the table is written unseen, and its record goes when it is taken over or discarded.
    """

    url: str
    table: str
    columns: tuple[TableColumn, ...]
    epoch: int
    token: str
    in_shadow: bool = False


def outputs_table(metadata: MetaData) -> Table:
    """One row per output: who owns it, the newest epoch, the last batch with its checkpoint version, and whose it is.

    Tables of before installations had ids lack the last column, until a fence is raised there.
    """
    import sqlalchemy as sa

    return sa.Table(
        OUTPUTS,
        metadata,
        sa.Column("output", sa.Text(), primary_key=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Text()),
        sa.Column("batch_id", sa.BigInteger()),
        sa.Column("installation", sa.Text()),
    )


def data_table(
    metadata: MetaData, name: str, columns: Iterable[TableColumn], key: Iterable[str], dialect: str
) -> Table:
    """The output itself; key columns take no NULL."""
    import sqlalchemy as sa

    fixed = set(key)
    return sa.Table(
        name,
        metadata,
        *(
            sa.Column(
                column.name, database_type(column, dialect), primary_key=column.name in fixed, autoincrement=False
            )
            for column in columns
        ),
    )


def staging_table(
    metadata: MetaData, name: str, columns: Iterable[TableColumn], dialect: str, *, temporary: bool = False
) -> Table:
    """Where rows wait for the transaction that takes them: one try of one partition holds each row number once."""
    import sqlalchemy as sa

    return sa.Table(
        f"{name}__staged",
        metadata,
        sa.Column("_sk_token", sa.Text(), primary_key=True),
        sa.Column("_sk_part", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("_sk_row", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("_sk_epoch", sa.BigInteger(), nullable=False),
        sa.Column(MARK, sa.Integer()),
        *(sa.Column(column.name, database_type(column, dialect), nullable=True) for column in columns),
        prefixes=["TEMPORARY"] if temporary else [],
    )


def check_epoch(connection: Connection, outputs: Table, table: str, epoch: int, *, in_shadow: bool) -> None:
    """Raise Fenced when the newest epoch of the output is not this one, OutputLost when there is none any more."""
    import sqlalchemy as sa

    newest = connection.execute(sa.select(outputs.c.epoch).where(outputs.c.output == table)).scalar_one_or_none()
    if newest is None and in_shadow:
        raise Fenced(f"table {table} is no longer written in shadow: it was taken over or discarded")
    if newest is None:
        raise OutputLost(
            f"table {table}: its database no longer holds the record of epoch {epoch}",
            hint="check whether the record was dropped or the URL now leads to another database",
        )
    if newest != epoch:
        raise Fenced(f"table {table}: epoch {epoch} has been superseded by epoch {newest}")


def check_keys(
    connection: Connection, staged: Table, mine: Any, names: Sequence[str], table: str, batch_id: int
) -> None:
    """Raise PermanentError when staged rows lack the key, or two of them have the same."""
    import sqlalchemy as sa

    key = [staged.c[name] for name in names]
    keyless = sa.select(*key).where(mine, sa.or_(*(column.is_(None) for column in key))).limit(1)
    if connection.execute(keyless).first():
        raise PermanentError(
            f"table {table}: batch {batch_id} has a row without a key ({', '.join(names)})",
            hint="filter such rows out, or fill the key in",
        )
    twice = sa.select(*key).where(mine).group_by(*key).having(sa.func.count() > 1).limit(1)
    found = connection.execute(twice).first()
    if found is not None:
        raise PermanentError(
            f"table {table}: batch {batch_id} holds the key {named_row(names, found)} more than once",
            hint="the newest of these rows is unknown: deduplicate or aggregate by the key",
        )


def stage_partition(plan: StagingPlan, rows: Iterable[Any]) -> None:
    """Put a partition's rows, each with its mark, into the staging table in one transaction, or none; raises Fenced."""
    import sqlalchemy as sa

    engine = open_engine(plan.url, pooled=False)
    metadata = sa.MetaData()
    outputs = outputs_table(metadata)
    staged = staging_table(metadata, plan.table, plan.columns, engine.dialect.name)
    chunks = _chunks(_records(plan, rows, engine.dialect.name))
    first = next(chunks, None)
    if first is None:
        return
    # The first rows are computed before the transaction begins, so that SQLite's write lock is not held meanwhile.
    with engine.begin() as connection:
        check_epoch(connection, outputs, plan.table, plan.epoch, in_shadow=plan.in_shadow)
        part = first[0]["_sk_part"]
        connection.execute(sa.delete(staged).where(staged.c._sk_token == plan.token, staged.c._sk_part == part))
        connection.execute(sa.insert(staged), first)
        for chunk in chunks:
            connection.execute(sa.insert(staged), chunk)


def rehearse_partition(plan: StagingPlan, rows: Iterable[Any]) -> None:
    """The same work into a temporary table, rolled back: warms a worker up and keeps nothing.

    Raises PermanentError for a row that is marked.
    """
    import sqlalchemy as sa

    sqlite = plan.url.startswith("sqlite")
    engine = sa.create_engine("sqlite://") if sqlite else open_engine(plan.url, pooled=False)
    metadata = sa.MetaData()
    staged = staging_table(metadata, plan.table, plan.columns, engine.dialect.name, temporary=True)
    with engine.connect() as connection:
        metadata.create_all(connection, checkfirst=False)
        for chunk in _chunks(_records(plan, rows, engine.dialect.name)):
            for position in (record[MARK] for record in chunk if record[MARK] is not None):
                column = plan.columns[position]
                raise refusal(f"table {plan.table}: the batch", column.name, text=column.kind == "string")
            connection.execute(sa.insert(staged), chunk)
        connection.rollback()
    engine.dispose()


def _records(plan: StagingPlan, rows: Iterable[Any], dialect: str) -> Iterator[dict[str, Any]]:
    part = _partition()
    names = [column.name for column in plan.columns]
    changes: list[tuple[str, Callable[[Any], Any]]] = [
        (name, change) for name, change in zip(names, converters(plan.columns, dialect), strict=True) if change
    ]
    for number, row in enumerate(rows):
        record = dict(zip([*names, MARK], row, strict=True))
        for name, change in changes:
            record[name] = change(record[name])
        record.update(_sk_token=plan.token, _sk_part=part, _sk_row=number, _sk_epoch=plan.epoch)
        yield record


def _chunks(records: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while chunk := list(islice(records, CHUNK_ROWS)):
        yield chunk


def _partition() -> int:
    # In a worker pyspark is loaded already; looked up, not imported: this room stays importable without it.
    import sys

    pyspark = sys.modules.get("pyspark")
    context = pyspark.TaskContext.get() if pyspark is not None else None
    return context.partitionId() if context is not None else 0
