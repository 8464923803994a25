"""Write a partition's rows to the staging table of a TableSink, all or none. Runs in Spark's Python workers.

The module contains only module-level functions with plain arguments, so that a worker imports them and no function is
pickled by value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from streamkeeper.errors import Fenced, OutputLost, PermanentError
from streamkeeper.sinks.columns import TableColumn, converters, database_type, staged_type
from streamkeeper.sinks.comparison import named_row
from streamkeeper.sinks.databases import open_engine
from streamkeeper.sinks.refused_values import MARK, refusal

if TYPE_CHECKING:
    from sqlalchemy import Connection, MetaData, Table

_Record: TypeAlias = tuple[Any, ...]
"""The values of one row of a staging table, in the order of its columns."""

CHUNK_ROWS = 5000
OUTPUTS = "streamkeeper_outputs"
VERSION_COLUMN, BATCH_COLUMN = "_sk_version", "_sk_batch"
"""The columns of a table without a key that name the checkpoint version and the batch that wrote a row."""


class StagingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of one attempt to write one batch."""

    url: str
    """The database's URL."""
    table: str
    """The table."""
    columns: tuple[TableColumn, ...]
    """Its columns."""
    epoch: int
    """The writer's epoch."""
    token: str
    """The identifier of this attempt, which distinguishes its rows from those of earlier attempts."""
    in_shadow: bool = False
    """Whether the table is written in shadow; the table's record is deleted when it becomes current or is discarded."""


def outputs_table(metadata: MetaData, *, numbered: bool = False) -> Table:
    """Return the table with one row per output: owner, newest epoch, last batch with its checkpoint version,
    installation.

    A table that was created before installations had ids lacks the column ``installation`` until a writer raises a
    fence in the table.

    ``numbered``: whether the table has the column ``segments``, which only tables without a key need. The first writer
    of such a table adds it.
    """
    import sqlalchemy as sa

    segments: list[Any] = [sa.Column("segments", sa.Text())] if numbered else []

    return sa.Table(
        OUTPUTS,
        metadata,
        sa.Column("output", sa.Text(), primary_key=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Text()),
        sa.Column("batch_id", sa.BigInteger()),
        sa.Column("installation", sa.Text()),
        *segments,
    )


def data_table(
    metadata: MetaData,
    name: str,
    columns: Iterable[TableColumn],
    key: Iterable[str],
    dialect: str,
    *,
    numbered: bool = False,
) -> Table:
    """Return the output table; its key columns are NOT NULL.

    ``metadata``: receives the table.
    ``name``: the table's name.
    ``columns``: its columns.
    ``key``: the key columns.
    ``dialect``: the database's dialect.
    ``numbered``: whether each row names the version and the batch that wrote it.
    """
    import sqlalchemy as sa

    fixed = set(key)
    place: list[Any] = [
        sa.Column(VERSION_COLUMN, sa.Text(), nullable=False),
        sa.Column(BATCH_COLUMN, sa.BigInteger(), nullable=False),
    ]
    return sa.Table(
        name,
        metadata,
        *(
            sa.Column(
                column.name, database_type(column, dialect), primary_key=column.name in fixed, autoincrement=False
            )
            for column in columns
        ),
        *(place if numbered else []),
    )


def staging_table(
    metadata: MetaData, name: str, columns: Iterable[TableColumn], dialect: str, *, temporary: bool = False
) -> Table:
    """Return the staging table, which keeps rows until one transaction copies them to the output table.

    A row number is unique within one partition of one attempt.

    ``metadata``: receives the table.
    ``name``: the output table's name.
    ``columns``: its columns.
    ``dialect``: the database's dialect.
    ``temporary``: create it as a temporary table.
    """
    import sqlalchemy as sa

    return sa.Table(
        f"{name}__staged",
        metadata,
        sa.Column("_sk_token", sa.Text(), primary_key=True),
        sa.Column("_sk_part", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("_sk_row", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("_sk_epoch", sa.BigInteger(), nullable=False),
        *(sa.Column(column.name, staged_type(column, dialect), nullable=True) for column in columns),
        sa.Column(MARK, sa.Integer()),
        prefixes=["TEMPORARY"] if temporary else [],
    )


def check_epoch(connection: Connection, outputs: Table, table: str, epoch: int, *, in_shadow: bool) -> None:
    """Raise an error if a writer with this epoch may no longer write the table.

    Raises Fenced if the output's newest epoch is not this epoch. If the output's record no longer exists, raises Fenced
    for a table that is written in shadow, and OutputLost for any other table.

    ``connection``: the open transaction. ``outputs``: the table of outputs. ``table``: the output's table. ``epoch``:
    the writer's epoch. ``in_shadow``: whether the table is written in shadow.
    """
    import sqlalchemy as sa

    newest = connection.execute(sa.select(outputs.c.epoch).where(outputs.c.output == table)).scalar_one_or_none()
    if newest is None and in_shadow:
        raise Fenced(f"table {table} is no longer a shadow: it became the current output or was discarded")
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
    """Raise PermanentError if a staged row lacks the key, or two staged rows have the same key.

    ``connection``: the open transaction.
    ``staged``: the staging table.
    ``mine``: the condition that selects this write's rows.
    ``names``: the key columns.
    ``table``: the output table's name, for errors.
    ``batch_id``: the batch's number, for errors.
    """
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
            hint="deduplicate or aggregate by the key, because it is unknown which of these rows must be kept",
        )


def stage_partition(plan: StagingPlan, rows: Iterable[Any]) -> None:
    """Write a partition's rows and their marks to the staging table, all in one transaction. Raises Fenced."""
    import sqlalchemy as sa

    engine = open_engine(plan.url, pooled=False)
    metadata = sa.MetaData()
    outputs = outputs_table(metadata)
    staged = staging_table(metadata, plan.table, plan.columns, engine.dialect.name)
    chunks = _chunks(_records(plan, rows, engine.dialect.name))
    first = next(chunks, None)
    if first is None:
        return
    # Compute the first rows before the transaction starts, so that SQLite's write lock is not held during that.
    with engine.begin() as connection:
        check_epoch(connection, outputs, plan.table, plan.epoch, in_shadow=plan.in_shadow)
        mine = (staged.c._sk_token == plan.token) & (staged.c._sk_part == _partition())
        connection.execute(sa.delete(staged).where(mine))
        _fill(connection, staged, chain([first], chunks))


def rehearse_partition(plan: StagingPlan, rows: Iterable[Any]) -> None:
    """Do the work of ``stage_partition`` in a temporary table and roll it back, to warm up a worker. Keeps no rows.

    Raises PermanentError for a marked row.
    """
    import sqlalchemy as sa

    sqlite = plan.url.startswith("sqlite")
    engine = sa.create_engine("sqlite://") if sqlite else open_engine(plan.url, pooled=False)
    metadata = sa.MetaData()
    staged = staging_table(metadata, plan.table, plan.columns, engine.dialect.name, temporary=True)
    with engine.connect() as connection:
        metadata.create_all(connection, checkfirst=False)
        chunks = _chunks(_records(plan, rows, engine.dialect.name))
        _fill(connection, staged, map(functools.partial(_without_marks, plan), chunks))
        connection.rollback()
    engine.dispose()


def _without_marks(plan: StagingPlan, chunk: list[_Record]) -> list[_Record]:
    for *_, position in chunk:
        if position is not None:
            column = plan.columns[position]
            raise refusal(f"table {plan.table}: the batch", column.name, text=column.kind == "string")
    return chunk


def _fill(connection: Connection, staged: Table, chunks: Iterable[list[_Record]]) -> None:
    """Write the records to the staging table: with COPY in PostgreSQL, which is faster than INSERT.

    One statement writes one chunk, whose rows have been computed before, so that a time limit for statements does not
    include the time that Spark takes for a partition.
    """
    import sqlalchemy as sa

    names = [column.name for column in staged.columns]
    for chunk in chunks:
        if connection.dialect.name == "postgresql":
            _copy(connection, staged.name, names, chunk)
        else:
            connection.execute(sa.insert(staged), [dict(zip(names, record, strict=True)) for record in chunk])


def _copy(connection: Connection, table: str, names: Sequence[str], records: Iterable[_Record]) -> None:
    """Send the records with COPY. Raises an error of SQLAlchemy, as for INSERT, without any values of the rows."""
    import psycopg
    import sqlalchemy as sa
    from psycopg import sql

    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    client: Any = connection.connection.driver_connection
    try:
        with client.cursor() as cursor:
            statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), columns)
            with cursor.copy(statement) as copy:
                for record in records:
                    copy.write_row(record)
    except psycopg.Error as error:
        # The other lines of the text contain the row that the server was reading.
        plain = type(error)(error.diag.message_primary or str(error).partition("\n")[0])
        if lost := client.closed:
            connection.invalidate(error)
        raise sa.exc.DBAPIError.instance(
            f"COPY {table}",
            None,
            plain,
            psycopg.Error,
            hide_parameters=True,
            connection_invalidated=lost,
            dialect=connection.dialect,
        ) from None


def _records(plan: StagingPlan, rows: Iterable[Any], dialect: str) -> Iterator[_Record]:
    part = _partition()
    changes: list[tuple[int, Callable[[Any], Any]]] = [
        (position, change) for position, change in enumerate(converters(plan.columns, dialect)) if change
    ]
    for number, row in enumerate(rows):
        values = list(row)
        for position, change in changes:
            values[position] = change(values[position])
        yield (plan.token, part, number, plan.epoch, *values)


def _chunks(records: Iterator[_Record]) -> Iterator[list[_Record]]:
    while chunk := list(islice(records, CHUNK_ROWS)):
        yield chunk


def _partition() -> int:
    # Workers have pyspark loaded; it is looked up, not imported, so that this package is importable without it.
    import sys

    pyspark = sys.modules.get("pyspark")
    context = pyspark.TaskContext.get() if pyspark is not None else None
    return context.partitionId() if context is not None else 0
