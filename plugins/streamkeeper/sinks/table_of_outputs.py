"""The table ``streamkeeper_outputs`` of a database: its columns, which newer releases extend, and its creation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkeeper.errors import InvalidInput
from streamkeeper.sinks.staging import outputs_table
from streamkeeper.sinks.table_dependents import quoted

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table


def check_outputs_table(connection: Connection, outputs: Table) -> None:
    """Raise InvalidInput when the table of outputs exists and is not Streamkeeper's."""
    import sqlalchemy as sa

    inspector = sa.inspect(connection)
    if not inspector.has_table(outputs.name):
        return
    there = {column["name"] for column in inspector.get_columns(outputs.name)}
    if not {"output", "owner", "epoch", "version", "batch_id"} <= there:
        raise InvalidInput(
            f"table {outputs.name} exists and Streamkeeper did not create it, but Streamkeeper needs this name to"
            " record outputs",
            hint="rename that table, or write to another database or schema",
        )


def known_outputs(connection: Connection, outputs: Table) -> Table:
    """Return the table of outputs with the column ``segments`` if the database or ``outputs`` has it."""
    import sqlalchemy as sa

    inspector = sa.inspect(connection)
    there = inspector.get_columns(outputs.name) if inspector.has_table(outputs.name) else []
    numbered = "segments" in {*outputs.c.keys(), *(column["name"] for column in there)}
    return outputs_table(sa.MetaData(), numbered=numbered)


def add_missing_columns(connection: Connection, outputs: Table) -> None:
    """Add the columns that a table of outputs of an older release lacks. Writers of such a release ignore them.

    Raises InvalidInput if the role may not add a column.
    """
    import sqlalchemy as sa

    there = {column["name"] for column in sa.inspect(connection).get_columns(outputs.name)}
    for name in ("installation", "segments"):
        if name not in outputs.c or name in there:
            continue
        statement = f"ALTER TABLE {quoted(connection, outputs.name)} ADD COLUMN {name} TEXT"
        try:
            connection.execute(sa.text(statement))
        except sa.exc.ProgrammingError as error:
            raise InvalidInput(
                f"table {outputs.name} lacks the column {name}, and the role of the url may not add it",
                hint=f"let the owner of the table run: {statement}",
            ) from error
