"""What the sinks that write to a table of SQLite or PostgreSQL have in common."""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING, ClassVar

from streamkeeper.errors import InvalidInput
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.sinks.columns import TableColumn, columns_of, find_differences, refuse_differences
from streamkeeper.sinks.contract import Sink, SinkContext, WriterRole
from streamkeeper.sinks.databases import identity, may_be_there, open_engine, parse_url, resolved, server_of
from streamkeeper.sinks.refused_values import mark_refused
from streamkeeper.sinks.staging import StagingPlan, data_table, rehearse_partition
from streamkeeper.sinks.table_record import find_foreign_table
from streamkeeper.sinks.versions_of_table import is_reserved, staged_name, version_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from sqlalchemy import Table

_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,49}")
_LONGEST_NAME = 63
"""Largest length of a name. PostgreSQL truncates longer names, and reports that only in a notice."""
_NO_SCHEMA = "use the name without a schema; the url selects the schema, with options=-csearch_path%3DSCHEMA"


class DatabaseTable(Sink):
    """A sink that writes to one table of a database."""

    url: str
    table: str
    numbers_rows: ClassVar[bool] = False
    """Whether each row names the version and the batch that wrote it."""

    @property
    def key_columns(self) -> Sequence[str]:
        """The columns that identify a row; empty for a table without a key."""
        return ()

    def check_place(self) -> None:
        """Raise InvalidInput or Unsupported for a table name or a URL that is not allowed."""
        if not isinstance(self.table, str) or not _TABLE.fullmatch(self.table):
            hint = _NO_SCHEMA if "." in str(self.table) else "use [a-z_][a-z0-9_]*, at most 50"
            raise InvalidInput(f"table name {self.table!r} is not allowed", hint=hint)
        parse_url(self.url)

    def describe(self) -> SinkDescription:
        """Return database and table, without user or password."""
        return SinkDescription(
            kind=self.kind,
            output=f"{identity(parse_url(self.url))}#{self.table}",
            options={"key": ",".join(self.key_columns)} if self.key_columns else {},
            server=server_of(parse_url(self.url)),
        )

    def overlaps(self, other: Sink) -> bool:
        """Whether both sinks write to the same table, also if two paths lead to one SQLite file."""
        if not isinstance(other, DatabaseTable) or self.table != other.table:
            return False
        if self.describe().same_place(other.describe()):
            return True
        paths = [parse_url(sink.url).database or "" for sink in (self, other) if sink.url.startswith("sqlite")]
        return len(paths) == 2 and len({*map(os.path.realpath, paths)}) == 1

    def check_shadow_place(self, context: SinkContext) -> None:
        """Raise InvalidInput if PostgreSQL would truncate the names of this writer's shadow tables."""
        if context.role is not WriterRole.SHADOW or self.url.startswith("sqlite"):
            return
        longest = staged_name(version_table(self.table, context.version))
        if len(longest) > _LONGEST_NAME:
            raise InvalidInput(
                f"table {self.table} cannot be rebuilt in shadow: the name {longest} has more than {_LONGEST_NAME}"
                " characters",
                hint=f"use a table name of at most {_LONGEST_NAME - (len(longest) - len(self.table))} characters",
            )

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
        marked = mark_refused(batch, columns, self.key_columns, parse_url(self.url).get_backend_name())
        marked.foreachPartition(functools.partial(rehearse_partition, plan))

    def _check_table(self, columns: tuple[TableColumn, ...]) -> None:
        """Compare the columns with the existing table. This also loads the database's client before a cutover
        needs it.
        """
        if not may_be_there(self.url):
            return
        engine = open_engine(self.url, pooled=False, reading=True)
        with engine.connect() as connection:
            data = self.data_table(self.table, columns, engine.dialect.name)
            refuse_differences(data, find_differences(connection, data))

    def columns_of(self, batch: DataFrame) -> tuple[TableColumn, ...]:
        """Return the batch's columns; raises Unsupported or InvalidInput when they do not fit this table."""
        return columns_of(batch.schema, self.table, self.key_columns)

    def data_table(self, name: str, columns: tuple[TableColumn, ...], dialect: str) -> Table:
        """Return the output's table under a name, such as that of a shadow.

        ``name``: the name. ``columns``: the columns of the query. ``dialect``: the database's dialect.
        """
        import sqlalchemy as sa

        numbered = self.numbers_rows
        return data_table(sa.MetaData(), name, columns, self.key_columns, dialect, numbered=numbered)
