"""Writes one query's batches to a table under one epoch; the fence is checked in the transaction of the rows."""

from __future__ import annotations

import functools
import uuid
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from msgspec import structs

from streamkeeper.errors import Fenced
from streamkeeper.model.protocol.output_history import OutputRecord
from streamkeeper.sinks.columns import TableColumn, as_stored, find_differences, refuse_differences
from streamkeeper.sinks.comparison import OutputComparison, compare_tables
from streamkeeper.sinks.contract import (
    ComparedVersions,
    OutputClaim,
    SinkContext,
    SinkWriter,
    WriterRole,
    compute,
    refuse_older_copy,
)
from streamkeeper.sinks.databases import lock_creation, may_be_there, open_engine, resolved
from streamkeeper.sinks.refused_values import check_refused, mark_refused
from streamkeeper.sinks.staging import (
    StagingPlan,
    check_epoch,
    check_keys,
    outputs_table,
    stage_partition,
    staging_table,
)
from streamkeeper.sinks.table_of_outputs import add_missing_columns, check_outputs_table, known_outputs
from streamkeeper.sinks.table_record import create_file, read_table_record
from streamkeeper.sinks.versions_of_table import (
    carry_grants_of_kept,
    check_shadow,
    claim_batch,
    drop_version,
    find_staging_table,
    move_epoch,
    read_claim,
    swap_in,
    version_table,
)
from streamkeeper.system.crash_points import crash_point

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame
    from sqlalchemy import Connection, Table

    from streamkeeper.sinks.database_table import DatabaseTable


class TableWriter(SinkWriter):
    """Writes one query's batches under one epoch; not thread-safe. A subclass decides how a batch's rows get into the
    table.
    """

    def __init__(self, sink: DatabaseTable, context: SinkContext) -> None:
        import sqlalchemy as sa

        self._sink = sink
        self._context = context
        self._in_shadow = context.role is WriterRole.SHADOW
        self._table = version_table(sink.table, context.version) if self._in_shadow else sink.table
        self._owner = f"{context.job}/{context.query}"
        self._engine = open_engine(sink.url, pooled=True, reading=context.looks)
        self._outputs = outputs_table(sa.MetaData(), numbered=sink.numbers_rows)
        self._prepared: tuple[tuple[TableColumn, ...], Table, Table] | None = None
        self._held: int | None = None

    def raise_fence(self) -> None:
        """Advance the output's row to this epoch and drop older epochs' staged rows. In the role SERVING, the same
        transaction makes this version's own table current if it has one: a former shadow, or one kept for a rollback.
        """
        import sqlalchemy as sa

        context = self._context
        create_file(self._sink.url)
        with self._engine.begin() as connection:
            lock_creation(connection)
            check_outputs_table(connection, self._outputs)
            outputs = self._outputs = known_outputs(connection, self._outputs)
            staged = find_staging_table(connection, self._table)
            outputs.create(connection, checkfirst=True)
            add_missing_columns(connection, outputs)
            if self._in_shadow:
                whose = {"installation": context.installation}
                check_shadow(connection, outputs, self._sink.table, context.version, self._owner, **whose)
            move_epoch(connection, outputs, self._table, self._owner, context.epoch, installation=context.installation)
            lineage = [version.version for version in reversed(context.serving)] or [context.version]
            if not self._in_shadow and swap_in(connection, outputs, self._table, lineage):
                crash_point("sink.swapped")
            self._settle(connection)
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
        self._prepare(self._sink.columns_of(batch))
        with self._engine.begin() as connection:
            self._continue_after(connection, batch_id)
        self._held = self.last_batch()

    def _continue_after(self, connection: Connection, batch_id: int) -> None:
        """Record that the output continues after a batch, which it may lack."""
        self._record_batch(connection, batch_id)

    def _record_batch(self, connection: Connection, batch_id: int) -> None:
        """Record a batch of this version in the output's row as the newest, without rows."""
        import sqlalchemy as sa

        outputs, context = self._outputs, self._context
        place = {"version": context.version, "batch_id": batch_id, **self._earlier(connection)}
        mine = (outputs.c.output == self._table) & (outputs.c.epoch == context.epoch)
        if connection.execute(sa.update(outputs).where(mine).values(**place)).rowcount != 1:
            check_epoch(connection, outputs, self._table, context.epoch, in_shadow=self._in_shadow)

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
        import sqlalchemy as sa

        if not self._in_shadow or not may_be_there(self._sink.url):
            return
        with self._engine.begin() as connection:
            lock_creation(connection)
            if not self._is_known(connection):
                return
            owner = sa.select(self._outputs.c.owner).where(self._outputs.c.output == self._table)
            if connection.execute(owner).scalar_one_or_none() == self._owner:
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
            compared = self._compare(connection, *names, may_differ=may_differ)
        return structs.replace(compared, old_batch=batches.get(names[0]), new_batch=batches.get(names[1]))

    def _prepare(self, columns: tuple[TableColumn, ...]) -> tuple[Table, Table]:
        """Create or check the output's table and staging table, once per set of columns; drop stale staged rows."""
        import sqlalchemy as sa

        if self._prepared is not None and self._prepared[0] == columns:
            return self._prepared[1:]
        name, dialect = self._table, self._engine.dialect.name
        data = self._sink.data_table(name, columns, dialect)
        staged = staging_table(sa.MetaData(), name, columns, dialect)
        with self._engine.begin() as connection:
            lock_creation(connection)
            check_epoch(connection, self._outputs, name, self._context.epoch, in_shadow=self._in_shadow)
            refuse_differences(data, find_differences(connection, data))
            find_staging_table(connection, name)
            if find_differences(connection, staged):
                staged.drop(connection)
            fresh = not sa.inspect(connection).has_table(name)
            data.create(connection, checkfirst=True)
            if fresh and self._sink.numbers_rows and not self._in_shadow:
                carry_grants_of_kept(connection, self._outputs, name, self._owner)
            staged.create(connection, checkfirst=True)
        self._prepared = (columns, data, staged)
        return data, staged

    def _refuse_older_copy(self, last: int | None) -> None:
        """Raise OutputLost when the output's row is older than this writer has already seen it. Raise Fenced instead
        when the row belongs to a newer epoch, or when this shadow's row no longer exists.
        """
        import sqlalchemy as sa

        lost = self._held is not None and (last is None or last < self._held)
        if lost and may_be_there(self._sink.url):
            with self._engine.begin() as connection:
                epoch = sa.select(self._outputs.c.epoch).where(self._outputs.c.output == self._table)
                known = self._is_known(connection)
                newest = connection.execute(epoch).scalar_one_or_none() if known else None
            if (newest is None and self._in_shadow) or (newest or 0) > self._context.epoch:
                raise Fenced(f"table {self._table}: epoch {self._context.epoch} has been superseded by epoch {newest}")
        refuse_older_copy(self._table, self._context.version, self._held, last)
        self._held = last

    def _is_known(self, connection: Connection) -> bool:
        """Whether a writer has ever raised a fence in this database."""
        import sqlalchemy as sa

        return sa.inspect(connection).has_table(self._outputs.name)

    def _stage(self, batch: DataFrame, plan: StagingPlan) -> None:
        marked = mark_refused(batch, plan.columns, self._sink.key_columns, self._engine.dialect.name)
        try:
            marked.foreachPartition(functools.partial(stage_partition, plan))
        except Exception:
            # Spark returns a worker's error only as text, so the fence itself is checked again.
            with self._engine.begin() as connection:
                check_epoch(connection, self._outputs, plan.table, plan.epoch, in_shadow=plan.in_shadow)
            raise

    def _advance(self, connection: Connection, batch_id: int) -> bool:
        earlier = self._earlier(connection)
        return claim_batch(
            connection, self._outputs, self._table, self._context, batch_id, held=self._held, earlier=earlier
        )

    def _take_over(self, connection: Connection, data: Table, staged: Table, token: str, batch_id: int) -> None:
        """Check this write's staged rows, copy them to the output table, and delete them from the staging table.

        ``connection``: the open transaction. ``data``: the output's table. ``staged``: the staging table. ``token``:
        this write's token. ``batch_id``: the batch's number.
        """
        import sqlalchemy as sa

        mine, key = staged.c._sk_token == token, self._sink.key_columns
        check_refused(connection, staged, mine, list(data.columns), self._table, batch_id)
        if key:
            check_keys(connection, staged, mine, key, self._table, batch_id)
        columns = [column for column in data.columns if column.name in staged.c]
        rows = [as_stored(staged.c[column.name], column) for column in columns]
        self._insert(connection, data, [column.name for column in columns], rows, mine, batch_id)
        connection.execute(sa.delete(staged).where(mine))

    @abstractmethod
    def _insert(
        self, connection: Connection, data: Table, names: list[str], values: list[Any], mine: Any, batch_id: int
    ) -> None:
        """Insert a batch's rows into the output table.

        ``connection``: the open transaction. ``data``: the output's table. ``names``: the columns to fill. ``values``:
        their values in the staging table. ``mine``: the condition that selects this write's rows there. ``batch_id``:
        the batch's number.
        """

    def _settle(self, connection: Connection) -> None:
        """Limit the table to what readers of this version may see, in the fence's transaction. The default does
        nothing.
        """

    def _earlier(self, connection: Connection) -> dict[str, Any]:
        """Return the values of the output's row that a batch changes in addition to version and number."""
        del connection
        # An older release of a table without a key may have left them.
        return {"segments": None} if "segments" in self._outputs.c else {}

    def _compare(
        self, connection: Connection, old: str, new: str, *, may_differ: Collection[str] = ()
    ) -> OutputComparison:
        return compare_tables(connection, old, new, may_differ=may_differ)
