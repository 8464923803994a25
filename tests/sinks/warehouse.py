"""Provides a database of either kind for tests, which is read through its own client and not through the tested
code.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.contract import SinkContext, WriterRole
from streamkeeper.sinks.table import TableSink
from streamkeeper.sinks.table_writer import TableWriter


class Warehouse:
    """One database with the output ``totals``; ``engine`` is the reader's own connection pool."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = sa.create_engine(url)
        self._opened: list[TableWriter] = []

    @property
    def sqlite(self) -> bool:
        """Whether the database is a SQLite file."""
        return self.url.startswith("sqlite")

    def writer(
        self,
        version: str,
        epoch: int,
        *serving: OutputSegment,
        shadow: bool = False,
        mode: str = "update",
        key: tuple[str, ...] = ("customer",),
        table: str = "totals",
        query: str = "totals",
    ) -> TableWriter:
        """Open a writer that has not raised its fence yet."""
        context = SinkContext(
            job="sales",
            query=query,
            version=version,
            epoch=epoch,
            output_mode=mode,
            role=WriterRole.SHADOW if shadow else WriterRole.SERVING,
            serving=serving,
        )
        self._opened.append(TableSink(self.url, table=table, key=key).open(context))
        return self._opened[-1]

    def execute(self, *statements: str) -> None:
        """Execute statements directly, without the tested code."""
        with self.engine.begin() as connection:
            for each in statements:
                connection.exec_driver_sql(each)

    def rows(self, statement: str = "SELECT * FROM totals ORDER BY customer") -> list[tuple[Any, ...]]:
        """Return the rows that a reader sees."""
        with self.engine.connect() as connection:
            return [tuple(each) for each in connection.exec_driver_sql(statement)]

    @property
    def outputs(self) -> dict[str, tuple[int, str | None, int | None]]:
        """The epoch, version and batch of each output, by its name."""
        found = self.rows("SELECT output, epoch, version, batch_id FROM streamkeeper_outputs")
        return {name: (epoch, version, batch) for name, epoch, version, batch in found}

    @property
    def tables(self) -> set[str]:
        """The names of the output's tables."""
        return {each for each in sa.inspect(self.engine).get_table_names() if each.startswith("totals")}

    def close(self) -> None:
        """Close all connections."""
        for each in self._opened:
            each.close()
        self.engine.dispose()
