"""TableSink: exactly-once writes to a table of SQLite or PostgreSQL, with the fence in the data's own transaction.

Spark's workers stage rows under a token. Then one transaction of the driver advances the output's row to this batch *if
the epoch is still its own*, takes over the staged rows and deletes them. A superseded writer changes no row and gets an
error; a replayed batch finds its number taken and writes no rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from streamkeeper.errors import InvalidInput
from streamkeeper.model.records.lost_store import Fence
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.database_table import DatabaseTable
from streamkeeper.sinks.table_answer import answer, read_fences_of
from streamkeeper.sinks.table_writer import TableWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Table

__all__ = ["TableSink", "answer", "read_fences"]


@dataclass(frozen=True, slots=True)
class TableSink(DatabaseTable):
    """A table with one row per ``key``; it is created from the query's columns if it is missing.

    A rebuilt version is written to ``<table>__<version>``, with its own columns, until it replaces the table. In the
    modes append and update, a row replaces the row with the same key. In the mode complete, a batch replaces all rows.
    For rows without a key, use ``AppendTableSink``.

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
        if isinstance(self.key, str) or not self.key or not all(isinstance(column, str) for column in self.key):
            raise InvalidInput(
                f"table {self.table}: key {self.key!r} is not a list of columns",
                hint='use key=["customer"], or AppendTableSink for rows without a key',
            )
        if len(set(self.key)) != len(self.key):
            raise InvalidInput(f"table {self.table}: key {self.key!r} names a column twice")
        object.__setattr__(self, "key", tuple(self.key))
        self.check_place()

    @property
    def key_columns(self) -> Sequence[str]:
        return self.key

    def open(self, context: SinkContext) -> TableWriter:
        """Return a writer for one epoch; it connects when it first needs to."""
        self.check_shadow_place(context)
        return KeyedTableWriter(self, context)


class KeyedTableWriter(TableWriter):
    """Writes batches whose rows replace the rows with the same key."""

    def _insert(
        self, connection: Connection, data: Table, names: list[str], values: list[Any], mine: Any, batch_id: int
    ) -> None:
        import sqlalchemy as sa

        rows = sa.select(*values).where(mine)
        if self._context.output_mode == "complete":
            connection.execute(sa.delete(data))
            connection.execute(sa.insert(data).from_select(names, rows))
        else:
            connection.execute(self._upsert(data, names, rows))

    def _upsert(self, data: Table, names: list[str], rows: Any) -> Any:
        from sqlalchemy.dialects import postgresql, sqlite

        dialect, key = sqlite if self._engine.dialect.name == "sqlite" else postgresql, list(self._sink.key_columns)
        statement = dialect.insert(data).from_select(names, rows)
        others = {name: statement.excluded[name] for name in names if name not in key}
        if not others:
            return statement.on_conflict_do_nothing(index_elements=key)
        return statement.on_conflict_do_update(index_elements=key, set_=others)


def read_fences(place: str) -> list[Fence]:
    """Return the fences of the tables with a key in a database; see ``fences.read_fences``."""
    return read_fences_of(place, numbered=False)
