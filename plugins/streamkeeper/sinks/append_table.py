"""AppendTableSink: exactly-once inserts into a table of SQLite or PostgreSQL whose rows have no key.

A batch is staged and taken over like a batch of ``TableSink``. Each row also gets the checkpoint version and the batch
that wrote it, because nothing else tells the rows of two batches apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from streamkeeper.model.records.lost_store import Fence
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.comparison import OutputComparison, compare_rows_of_tables
from streamkeeper.sinks.contract import OutputQuestion, SinkContext
from streamkeeper.sinks.database_table import DatabaseTable
from streamkeeper.sinks.staging import BATCH_COLUMN, VERSION_COLUMN
from streamkeeper.sinks.table_answer import answer, read_fences_of
from streamkeeper.sinks.table_record import find_foreign_rows, refuse_foreign_rows
from streamkeeper.sinks.table_segments import as_text, cut_back, delete_after, earlier_segments, segments_of
from streamkeeper.sinks.table_writer import TableWriter
from streamkeeper.sinks.versions_of_table import put_aside, read_row

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection, Table

__all__ = ["AppendTableSink", "answer", "read_fences", "refuse_cut"]


@dataclass(frozen=True, slots=True)
class AppendTableSink(DatabaseTable):
    """A table without a key, to which each batch adds its rows; it is created from the query's columns if it is
    missing.

    The table has two more columns: ``_sk_version`` and ``_sk_batch`` name the checkpoint version and the batch that
    wrote a row. The first start after a restore or a rollback deletes the rows of later batches. A rebuilt version is
    written to ``<table>__<version>``, with its own columns, until it replaces the table.

    The types of the columns are those of a ``TableSink``.
    """

    kind: ClassVar[str] = "append_table"
    output_modes: ClassVar[frozenset[str]] = frozenset({"append"})
    numbers_rows: ClassVar[bool] = True

    url: str = field(repr=False)
    """``sqlite:////absolute/path.db`` or ``postgresql+psycopg://…``; preferably a ``secret://`` param."""
    table: str
    """The table's name."""

    def __post_init__(self) -> None:
        self.check_place()

    def find_conflict(self, *, serves: bool) -> str | None:
        """Return a sentence for a reserved name or a table with rows of others (unless ``serves``), or for a foreign
        table with an internal name.
        """
        found = DatabaseTable.find_conflict(self, serves=serves)
        return found if found or serves else find_foreign_rows(self.url, self.table)

    def open(self, context: SinkContext) -> TableWriter:
        """Return a writer for one epoch; it connects when it first needs to."""
        self.check_shadow_place(context)
        return AppendTableWriter(self, context)


class AppendTableWriter(TableWriter):
    """Writes batches whose rows are added to the rows of earlier batches."""

    def _insert(
        self, connection: Connection, data: Table, names: list[str], values: list[Any], mine: Any, batch_id: int
    ) -> None:
        import sqlalchemy as sa

        place = [sa.literal(self._context.version, sa.Text()), sa.literal(batch_id, sa.BigInteger())]
        rows = sa.select(*values, *place).where(mine)
        connection.execute(sa.insert(data).from_select([*names, VERSION_COLUMN, BATCH_COLUMN], rows))

    def seed(self, batch_id: int) -> None:
        """Record that this version continues after ``batch_id``, so that later versions can name this batch."""
        if self.last_batch() is None:
            with self._engine.begin() as connection:
                self._record_batch(connection, batch_id)
        self._held = self.last_batch()

    def _settle(self, connection: Connection) -> None:
        row, context = read_row(connection, self._outputs, self._table), self._context
        assert row is not None, "the fence creates the output's row"
        # A shadow has no ancestors: its table has only its own rows.
        serving = context.serving if context.serving and not self._in_shadow else (OutputSegment(context.version),)
        starts = len(serving) == 1 and context.version not in {segment.version for segment in segments_of(row)}
        if starts and row.version is not None:
            put_aside(connection, self._outputs, self._table)
            return
        if starts and not self._in_shadow and not context.begun:
            refuse_foreign_rows(connection, self._table)
        cut_back(connection, self._outputs, row, serving)

    def _earlier(self, connection: Connection) -> dict[str, Any]:
        # The segments change only with the first batch of a version.
        row = read_row(connection, self._outputs, self._table) if self._held is None else None
        if row is None:
            return {}
        begins = row.version is not None and row.version != self._context.version
        return {"segments": as_text(segments_of(row) if begins else earlier_segments(row))}

    def _continue_after(self, connection: Connection, batch_id: int) -> None:
        super()._continue_after(connection, batch_id)
        # The batches that follow are written again.
        delete_after(connection, self._table, self._context.version, batch_id)

    def _compare(
        self, connection: Connection, old: str, new: str, *, may_differ: Collection[str] = ()
    ) -> OutputComparison:
        own = (VERSION_COLUMN, BATCH_COLUMN)
        return compare_rows_of_tables(connection, old, new, may_differ=may_differ, ignored=own)


def read_fences(place: str) -> list[Fence]:
    """Return the fences of the tables without a key in a database; see ``fences.read_fences``."""
    return read_fences_of(place, numbered=True)


def refuse_cut(question: OutputQuestion, batch: int) -> str:
    """Return why the table cannot be limited to the version's batches up to ``batch``; empty if it can. It cannot if
    neither the table nor the table that is kept for a rollback to this version has these batches (any more).
    """
    found = answer(question)
    if found.unknown:
        return found.unknown
    table, version = question.sink.output.rpartition("#")[2], question.version
    needs = f"the restore needs batch {batch} of {version}, but table {table}"
    if found.batch is None and batch >= 0:
        return f"{needs} has no batch of {version}"
    if found.batch is not None and found.batch < batch:
        return f"{needs} has its batches only up to {found.batch}; a restore or a rollback deleted the later ones"
    return ""
