"""Read the record of a table, namely its rows in the table of outputs, with only the database's URL."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from streamkeeper.errors import InvalidInput
from streamkeeper.model.protocol.output_history import OutputRecord
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.databases import may_be_there, open_engine, parse_url
from streamkeeper.sinks.staging import outputs_table
from streamkeeper.sinks.table_dependents import has_rows
from streamkeeper.sinks.table_of_outputs import check_outputs_table, known_outputs
from streamkeeper.sinks.table_segments import earlier_segments, is_numbered
from streamkeeper.sinks.versions_of_table import find_staging_table, version_in_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Engine


def create_file(url: str) -> None:
    """Create the file of a SQLite database, with the mode that SQLite uses. An existing file stays unchanged.

    No file is created if its directory is missing. The first connection to the database reports that.
    """
    if not may_be_there(url):
        with suppress(FileNotFoundError):
            os.close(os.open(parse_url(url).database or "", os.O_CREAT | os.O_WRONLY, 0o644))


def read_table_record(engine: Engine, url: str, table: str, *, name: str = "") -> OutputRecord:
    """Return the record that the database keeps of the output ``table``; creates nothing, and raises the database's
    errors.

    ``name``: the table of a version that is written in shadow; empty for the current version's table.
    """
    if not may_be_there(url):
        return OutputRecord(gone=f"the database file {parse_url(url).database} is missing")
    with engine.connect() as connection:
        return _read(connection, table, name or table)


def _read(connection: Connection, table: str, name: str) -> OutputRecord:
    import sqlalchemy as sa

    outputs, inspector = known_outputs(connection, outputs_table(sa.MetaData())), sa.inspect(connection)
    if not inspector.has_table(outputs.name):
        return OutputRecord(gone=f"the database has no table {outputs.name}")
    # A table that an older release created lacks the column ``installation``.
    columns = [column for column in outputs.columns if column.name != "installation"]
    rows = {row.output: row for row in connection.execute(sa.select(*columns))}
    last: dict[str, int] = {}
    for other in rows.values():
        if (version := version_in_name(table, other.output)) and other.version and inspector.has_table(other.output):
            last |= _ends(earlier_segments(other)) | {version: other.batch_id}
    row = rows.get(name)
    if row is None:
        return OutputRecord(gone=f"{outputs.name} has no row for table {name}", last=last)
    if row.version is not None and not inspector.has_table(name):
        return OutputRecord(gone=f"table {name} is missing", epoch=row.epoch, last=last)
    last |= _ends(earlier_segments(row))
    if row.version is not None and row.batch_id is not None:
        last[row.version] = row.batch_id
    return OutputRecord(epoch=row.epoch, last=last, every_version=is_numbered(row))


def _ends(segments: list[OutputSegment]) -> dict[str, int]:
    return {segment.version: segment.last for segment in segments if segment.last is not None}


def refuse_foreign_rows(connection: Connection, table: str) -> None:
    """Raise InvalidInput if a table has rows."""
    import sqlalchemy as sa

    if sa.inspect(connection).has_table(table) and has_rows(connection, table):
        raise InvalidInput(
            f"table {table} has rows that Streamkeeper did not write, and a restore could delete them",
            hint="write to another table, or move these rows to one",
        )


def find_foreign_rows(url: str, table: str) -> str | None:
    """Return a sentence if a table has rows, but no writer has claimed it; None otherwise, or if the database does not
    answer. The writer repeats this check when it raises the fence.
    """
    import sqlalchemy as sa

    def check(connection: Connection) -> None:
        outputs = outputs_table(sa.MetaData())
        claimed = sa.select(outputs.c.version).where(outputs.c.output == table)
        known = sa.inspect(connection).has_table(outputs.name)
        if not known or connection.execute(claimed).scalar() is None:
            refuse_foreign_rows(connection, table)

    return _objection(url, check)


def find_foreign_table(url: str, table: str) -> str | None:
    """Return a phrase if a foreign table has the name of one of Streamkeeper's internal tables, else None.

    If the database does not answer, the result is None too. The writer repeats this check when it raises the fence.
    """
    import sqlalchemy as sa

    def check(connection: Connection) -> None:
        check_outputs_table(connection, outputs_table(sa.MetaData()))
        find_staging_table(connection, table)

    return _objection(url, check)


def _objection(url: str, check: Callable[[Connection], object]) -> str | None:
    """Return the message of the InvalidInput that a check of a database raises; None without one, or if the database
    does not answer.
    """
    import sqlalchemy as sa

    if not may_be_there(url):
        return None
    engine = open_engine(url, pooled=False, reading=True)
    try:
        with engine.connect() as connection:
            check(connection)
    except InvalidInput as error:
        return error.message
    except sa.exc.SQLAlchemyError:
        return None
    finally:
        engine.dispose()
    return None
