"""TableSink: exactly-once writes to a table of SQLite or PostgreSQL, with the fence in the data's own transaction.

Spark's workers stage rows under a token. Then one transaction of the driver advances the output's row to this batch *if
the epoch is still its own*, takes over the staged rows and deletes them. A superseded writer changes no row and gets an
error; a replayed batch finds its number taken and writes no rows.
"""

from __future__ import annotations

import functools
import os
import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import structs

from streamkeeper.errors import Fenced, InvalidInput
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.protocol.output_history import OutputRecord
from streamkeeper.sinks.columns import TableColumn, as_stored, columns_of, find_differences, refuse_differences
from streamkeeper.sinks.comparison import OutputComparison, compare_tables
from streamkeeper.sinks.contract import (
    ComparedVersions,
    OutputClaim,
    Sink,
    SinkContext,
    SinkWriter,
    WriterRole,
    compute,
    refuse_older_copy,
)
from streamkeeper.sinks.databases import (
    identity,
    lock_creation,
    may_be_there,
    open_engine,
    parse_url,
    resolved,
    server_of,
)
from streamkeeper.sinks.refused_values import check_refused, mark_refused
from streamkeeper.sinks.staging import (
    StagingPlan,
    check_epoch,
    check_keys,
    data_table,
    outputs_table,
    rehearse_partition,
    stage_partition,
    staging_table,
)
from streamkeeper.sinks.table_answer import answer, read_fences
from streamkeeper.sinks.table_record import create_file, find_foreign_table, read_table_record
from streamkeeper.sinks.versions_of_table import (
    add_missing_column,
    check_outputs_table,
    check_shadow,
    check_shadow_name,
    claim_batch,
    drop_version,
    find_staging_table,
    is_reserved,
    move_epoch,
    read_claim,
    read_row,
    swap_in,
    version_table,
)
from streamkeeper.system.crash_points import crash_point

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame
    from sqlalchemy import Connection, Table

__all__ = ["TableSink", "TableWriter", "answer", "read_fences"]

_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,49}")
_NO_SCHEMA = "use the name without a schema; the url selects the schema, with options=-csearch_path%3DSCHEMA"


@dataclass(frozen=True, slots=True)
class TableSink(Sink):
    """A table with one row per ``key``; it is created from the query's columns if it is missing.

    A rebuilt version is written to ``<table>__<version>``, with its own columns, until it replaces the table. In the
    modes append and update, a row replaces the row with the same key. In the mode complete, a batch replaces all rows.

    Numbers, strings, booleans, dates, timestamps and binary values have columns of their own types. Arrays, maps and
    structs are stored as JSON (``jsonb`` in PostgreSQL, text in SQLite), with instants in UTC.
    """

    kind: ClassVar[str] = "table"
    output_modes: ClassVar[frozenset[str]] = frozenset({"append", "update", "complete"})

    url: str = field(repr=False)
    """``sqlite:////absolute/path.db`` or ``postgresql+psycopg://…``; preferably a ``secret://`` param."""
    table: str
    """The table's name."""
    key: Sequence[str]
    """The key columns."""

    def __post_init__(self) -> None:
        if not isinstance(self.table, str) or not _TABLE.fullmatch(self.table):
            hint = _NO_SCHEMA if "." in str(self.table) else "use [a-z_][a-z0-9_]*, at most 50"
            raise InvalidInput(f"table name {self.table!r} is not allowed", hint=hint)
        if isinstance(self.key, str) or not self.key or not all(isinstance(column, str) for column in self.key):
            raise InvalidInput(f"table {self.table}: key {self.key!r} is not a list", hint='use key=["customer"]')
        if len(set(self.key)) != len(self.key):
            raise InvalidInput(f"table {self.table}: key {self.key!r} names a column twice")
        object.__setattr__(self, "key", tuple(self.key))
        parse_url(self.url)

    def describe(self) -> SinkDescription:
        """Return database and table, without user or password."""
        return SinkDescription(
            kind=self.kind,
            output=f"{identity(parse_url(self.url))}#{self.table}",
            options={"key": ",".join(self.key)},
            server=server_of(parse_url(self.url)),
        )

    def overlaps(self, other: Sink) -> bool:
        """Whether both sinks write to the same table, also if two paths lead to one SQLite file."""
        if not isinstance(other, TableSink) or self.table != other.table:
            return False
        if self.describe().same_place(other.describe()):
            return True
        paths = [parse_url(sink.url).database or "" for sink in (self, other) if sink.url.startswith("sqlite")]
        return len(paths) == 2 and len({*map(os.path.realpath, paths)}) == 1

    def open(self, context: SinkContext) -> TableWriter:
        """Return a writer for one epoch; it connects when it first needs to."""
        if context.role is WriterRole.SHADOW and not self.url.startswith("sqlite"):
            check_shadow_name(self.table, context.version)
        return TableWriter(self, context)

    @property
    def fence_place(self) -> str:
        """The URL of the database, which contains the fence."""
        return self.url

    def find_conflict(self, *, serves: bool) -> str | None:
        """Return a sentence for a reserved name (unless ``serves``), or for a foreign table with an internal name."""
        if not serves and is_reserved(self.table):
            return f"table name {self.table} is reserved for Streamkeeper's own tables"
        return find_foreign_table(self.url, self.table)

    def rehearse(self, batch: DataFrame) -> None:
        """Insert the batch into temporary tables of the workers and roll back; raises OutputUnfit."""
        columns = self.columns_of(batch)
        self._check_table(columns)
        plan = StagingPlan(url=resolved(self.url), table=self.table, columns=columns, epoch=0, token="rehearsal")
        marked = mark_refused(batch, columns, self.key, parse_url(self.url).get_backend_name())
        marked.foreachPartition(functools.partial(rehearse_partition, plan))

    def _check_table(self, columns: tuple[TableColumn, ...]) -> None:
        """Compare the columns with the existing table. This also loads the database's client before a cutover
        needs it.
        """
        import sqlalchemy as sa

        if not may_be_there(self.url):
            return
        engine = open_engine(self.url, pooled=False, reading=True)
        with engine.connect() as connection:
            data = data_table(sa.MetaData(), self.table, columns, self.key, engine.dialect.name)
            refuse_differences(data, find_differences(connection, data))

    def columns_of(self, batch: DataFrame) -> tuple[TableColumn, ...]:
        """Return the batch's columns; raises Unsupported or InvalidInput when they do not fit this table."""
        return columns_of(batch.schema, self.table, self.key)


class TableWriter(SinkWriter):
    """Writes one query's batches under one epoch; not thread-safe."""

    def __init__(self, sink: TableSink, context: SinkContext) -> None:
        import sqlalchemy as sa

        self._sink = sink
        self._context = context
        self._in_shadow = context.role is WriterRole.SHADOW
        self._table = version_table(sink.table, context.version) if self._in_shadow else sink.table
        self._owner = f"{context.job}/{context.query}"
        self._engine = open_engine(sink.url, pooled=True, reading=context.looks)
        self._metadata = sa.MetaData()
        self._outputs = outputs_table(self._metadata)
        self._prepared: tuple[tuple[TableColumn, ...], Table, Table] | None = None
        self._held: int | None = None

    def raise_fence(self) -> None:
        """Advance the output's row to this epoch and drop older epochs' staged rows. In the role SERVING, the same
        transaction makes this version's own table current if it has one: a former shadow, or one kept for a rollback.
        """
        import sqlalchemy as sa

        outputs, context = self._outputs, self._context
        create_file(self._sink.url)
        with self._engine.begin() as connection:
            lock_creation(connection)
            check_outputs_table(connection, outputs)
            staged = find_staging_table(connection, self._table)
            outputs.create(connection, checkfirst=True)
            add_missing_column(connection, outputs)
            if self._in_shadow:
                whose = {"installation": context.installation}
                check_shadow(connection, outputs, self._sink.table, context.version, self._owner, **whose)
            move_epoch(connection, outputs, self._table, self._owner, context.epoch, installation=context.installation)
            lineage = [version.version for version in reversed(context.serving)] or [context.version]
            if not self._in_shadow and swap_in(connection, outputs, self._table, lineage):
                crash_point("sink.swapped")
            # A swap has dropped the staging table with its rows.
            if staged is not None and sa.inspect(connection).has_table(staged):
                old = sa.table(staged, sa.column("_sk_epoch"))
                connection.execute(sa.delete(old).where(old.c._sk_epoch < context.epoch))
        self._held = self.last_batch()

    def read_record(self) -> OutputRecord:
        """Return the record in the output's row and in the rows of its other versions."""
        return read_table_record(self._engine, self._sink.url, self._sink.table, name=self._table)

    def begin_after(self, batch: DataFrame, batch_id: int) -> None:
        """Create the table, and record this batch of this version in the output's row."""
        import sqlalchemy as sa

        self._prepare(self._sink.columns_of(batch))
        outputs, context = self._outputs, self._context
        mine = (outputs.c.output == self._table) & (outputs.c.epoch == context.epoch)
        with self._engine.begin() as connection:
            connection.execute(sa.update(outputs).where(mine).values(version=context.version, batch_id=batch_id))
        self._held = self.last_batch()

    def newest_claim(self) -> OutputClaim | None:
        """Return the output row's claim, of this query and installation; None if there is none. Creates nothing."""
        if not may_be_there(self._sink.url):
            return None
        with self._engine.connect() as connection:
            if not self._is_known(connection):
                return None
            return read_claim(connection, self._outputs, self._sink.table, self._owner, self._context.installation)

    def last_batch(self) -> int | None:
        """Return the batch in the output's row; None if the row is missing or belongs to another checkpoint version."""
        import sqlalchemy as sa

        if not may_be_there(self._sink.url):
            return None
        outputs = self._outputs
        with self._engine.connect() as connection:
            if not self._is_known(connection):
                return None
            wanted = (outputs.c.output == self._table) & (outputs.c.version == self._context.version)
            return connection.execute(sa.select(outputs.c.batch_id).where(wanted)).scalar_one_or_none()

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Stage the rows from the workers, then apply all of them in one transaction."""
        columns, last = self._sink.columns_of(batch), self.last_batch()
        self._refuse_older_copy(last)
        data, staged = self._prepare(columns)
        if last is not None and last >= batch_id:
            compute(batch)
            return
        token = f"{self._context.epoch}-{batch_id}-{uuid.uuid4().hex}"
        plan = StagingPlan(
            url=resolved(self._sink.url), table=self._table, columns=columns, epoch=self._context.epoch, token=token,
            in_shadow=self._in_shadow,
        )  # fmt: skip
        self._stage(batch, plan)
        crash_point("sink.staged")
        with self._engine.begin() as connection:
            if self._advance(connection, batch_id):
                self._take_over(connection, data, staged, token, batch_id)
        self._held = batch_id
        crash_point("sink.committed")

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def discard(self) -> None:
        """Drop this shadow version's table, staging table and row. Has no effect if it is no shadow (any more)."""
        if not self._in_shadow or not may_be_there(self._sink.url):
            return
        with self._engine.begin() as connection:
            lock_creation(connection)
            if not self._is_known(connection):
                return
            add_missing_column(connection, self._outputs)
            row = read_row(connection, self._outputs, self._table)
            if row is not None and row.owner == self._owner:
                drop_version(connection, self._outputs, self._table)
        self._prepared = None

    def compare_with_current(self, versions: ComparedVersions) -> OutputComparison:
        return versions.judged(self.compare(versions.may_differ))

    def compare(self, may_differ: Collection[str] = ()) -> OutputComparison:
        """Compare the current table with the shadow's table in one snapshot; ``may_differ``: see ``compare_tables``."""
        import sqlalchemy as sa

        outputs, names = self._outputs, (self._sink.table, self._table)
        if not may_be_there(self._sink.url):
            return OutputComparison(comparable=False, why=f"there is no table {', '.join(names)} yet")
        engine = open_engine(self._sink.url, pooled=False, reading=True)
        with engine.begin() as connection:
            # The first statement fixes the snapshot: batches and rows are of the same moment.
            batches: dict[str, int | None] = {}
            if self._is_known(connection):
                rows = connection.execute(sa.select(outputs.c.output, outputs.c.batch_id)).all()
                batches = {row.output: row.batch_id for row in rows}
            compared = compare_tables(connection, *names, may_differ=may_differ)
        return structs.replace(compared, old_batch=batches.get(names[0]), new_batch=batches.get(names[1]))

    def _prepare(self, columns: tuple[TableColumn, ...]) -> tuple[Table, Table]:
        """Create or check the output's table and staging table, once per set of columns; drop stale staged rows."""
        import sqlalchemy as sa

        if self._prepared is not None and self._prepared[0] == columns:
            return self._prepared[1:]
        name, dialect = self._table, self._engine.dialect.name
        data = data_table(sa.MetaData(), name, columns, self._sink.key, dialect)
        staged = staging_table(sa.MetaData(), name, columns, dialect)
        with self._engine.begin() as connection:
            lock_creation(connection)
            check_epoch(connection, self._outputs, name, self._context.epoch, in_shadow=self._in_shadow)
            refuse_differences(data, find_differences(connection, data))
            find_staging_table(connection, name)
            if find_differences(connection, staged):
                staged.drop(connection)
            data.create(connection, checkfirst=True)
            staged.create(connection, checkfirst=True)
        self._prepared = (columns, data, staged)
        return data, staged

    def _refuse_older_copy(self, last: int | None) -> None:
        """Raise OutputLost when the output's row is older than this writer has already seen it. Raise Fenced instead
        when the row belongs to a newer epoch, or when this shadow's row no longer exists.
        """
        lost = self._held is not None and (last is None or last < self._held)
        if lost and may_be_there(self._sink.url):
            with self._engine.begin() as connection:
                row = read_row(connection, self._outputs, self._table) if self._is_known(connection) else None
            newest = row.epoch if row is not None else None
            if (newest is None and self._in_shadow) or (newest or 0) > self._context.epoch:
                raise Fenced(f"table {self._table}: epoch {self._context.epoch} has been superseded by epoch {newest}")
        refuse_older_copy(self._table, self._context.version, self._held, last)
        self._held = last

    def _is_known(self, connection: Connection) -> bool:
        """Whether a writer has ever raised a fence in this database."""
        import sqlalchemy as sa

        return sa.inspect(connection).has_table(self._outputs.name)

    def _stage(self, batch: DataFrame, plan: StagingPlan) -> None:
        marked = mark_refused(batch, plan.columns, self._sink.key, self._engine.dialect.name)
        try:
            marked.foreachPartition(functools.partial(stage_partition, plan))
        except Exception:
            # Spark returns a worker's error only as text, so the fence itself is checked again.
            with self._engine.begin() as connection:
                check_epoch(connection, self._outputs, plan.table, plan.epoch, in_shadow=plan.in_shadow)
            raise

    def _advance(self, connection: Connection, batch_id: int) -> bool:
        return claim_batch(connection, self._outputs, self._table, self._context, batch_id, held=self._held)

    def _take_over(self, connection: Connection, data: Table, staged: Table, token: str, batch_id: int) -> None:
        """Check this write's staged rows, copy them to the output table, and delete them from the staging table.

        ``connection``: the open transaction. ``data``: the output's table. ``staged``: the staging table. ``token``:
        this write's token. ``batch_id``: the batch's number, for errors.
        """
        import sqlalchemy as sa

        mine = staged.c._sk_token == token
        check_refused(connection, staged, mine, list(data.columns), self._table, batch_id)
        check_keys(connection, staged, mine, self._sink.key, self._table, batch_id)
        names = [column.name for column in data.columns]
        rows = sa.select(*(as_stored(staged.c[column.name], column) for column in data.columns)).where(mine)
        if self._context.output_mode == "complete":
            connection.execute(sa.delete(data))
            connection.execute(sa.insert(data).from_select(names, rows))
        else:
            connection.execute(self._upsert(data, names, rows))
        connection.execute(sa.delete(staged).where(mine))

    def _upsert(self, data: Table, names: list[str], rows: Any) -> Any:
        from sqlalchemy.dialects import postgresql, sqlite

        dialect = sqlite if self._engine.dialect.name == "sqlite" else postgresql
        statement = dialect.insert(data).from_select(names, rows)
        others = {name: statement.excluded[name] for name in names if name not in self._sink.key}
        if not others:
            return statement.on_conflict_do_nothing(index_elements=list(self._sink.key))
        return statement.on_conflict_do_update(index_elements=list(self._sink.key), set_=others)
