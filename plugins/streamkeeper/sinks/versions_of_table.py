"""The tables of one output's checkpoint versions, and the swap by which another one serves.

``totals`` serves; ``totals__v0003`` is written in shadow, or was replaced last and is kept for the way back. Each has a
row of its own in ``streamkeeper_outputs``, and that row's owner is what makes it Streamkeeper's. SQLite and PostgreSQL
create, rename and drop tables inside a transaction, so that a swap is seen whole or not at all.

Internal tables have reserved names, which no new output may take. A name alone proves nothing: a version's table is
dropped by its row, a staging table by its columns, and any other table of such a name is left alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from streamkeeper.errors import Fenced, InvalidInput, OutputLost
from streamkeeper.sinks.contract import OutputClaim, check_installation
from streamkeeper.sinks.table_dependents import carry_grants, quoted, refuse_dependents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row, Table

_LONGEST_NAME = 63
"""PostgreSQL cuts longer identifiers off, and says so in a notice only."""


_RESERVED = re.compile(r"streamkeeper_.*|.*__staged|.*__v\d{4,}")
_STAGING_KEY = {"_sk_token", "_sk_part", "_sk_row"}


def is_reserved(table: str) -> bool:
    """Whether the name is one that Streamkeeper gives to its own tables."""
    return _RESERVED.fullmatch(table) is not None


def version_table(table: str, version: str) -> str:
    """The name of a version's table while it does not serve."""
    return f"{table}__{version}"


def version_in_name(table: str, name: str) -> str:
    """The version that a table of an output has in its name; empty for the one that serves, and for other tables."""
    found = re.fullmatch(rf"{re.escape(table)}__(v\d{{4,}})", name)
    return found[1] if found else ""


def staged_name(table: str) -> str:
    """The name of a table's staging table."""
    return f"{table}__staged"


def find_staging_table(connection: Connection, table: str) -> str | None:
    """The name of a table's staging table, None without one; raises InvalidInput when it is somebody else's table.

    No output has columns that begin with ``_sk_``: a table with that key is one of ours.
    """
    import sqlalchemy as sa

    name, inspector = staged_name(table), sa.inspect(connection)
    if not inspector.has_table(name):
        return None
    if {*inspector.get_pk_constraint(name)["constrained_columns"]} != _STAGING_KEY:
        raise InvalidInput(
            f"table {name} exists and Streamkeeper did not create it: it stages the rows of {table} under that name",
            hint="rename that table, or write to another output table",
        )
    return name


def check_outputs_table(connection: Connection, outputs: Table) -> None:
    """Raise InvalidInput when the table of outputs exists and is somebody else's."""
    import sqlalchemy as sa

    inspector = sa.inspect(connection)
    if not inspector.has_table(outputs.name):
        return
    there = {column["name"] for column in inspector.get_columns(outputs.name)}
    if not {"output", "owner", "epoch", "version", "batch_id"} <= there:
        raise InvalidInput(
            f"table {outputs.name} exists and Streamkeeper did not create it: it records its outputs under that name",
            hint="rename that table, or write to another database or schema",
        )


def check_shadow_name(table: str, version: str) -> None:
    """Raise InvalidInput when PostgreSQL could not tell the shadow's tables from others by their names."""
    longest = staged_name(version_table(table, version))
    if len(longest) > _LONGEST_NAME:
        raise InvalidInput(
            f"table {table} cannot be rebuilt in shadow: the name {longest} is longer than {_LONGEST_NAME}",
            hint=f"use a table name of at most {_LONGEST_NAME - (len(longest) - len(table))}",
        )


def read_row(connection: Connection, outputs: Table, output: str) -> Row[Any] | None:
    """An output's row, which no other transaction changes until this one ends."""
    import sqlalchemy as sa

    return connection.execute(sa.select(outputs).where(outputs.c.output == output).with_for_update()).one_or_none()


def read_claim(connection: Connection, outputs: Table, table: str, owner: str, installation: str) -> OutputClaim | None:
    """Who a table was written for last, if that is this query of this installation."""
    import sqlalchemy as sa

    mine = (outputs.c.output == table) & (outputs.c.owner == owner)
    # Older writers made it without the column of the installation.
    if installation and "installation" in {
        column["name"] for column in sa.inspect(connection).get_columns(outputs.name)
    }:
        mine &= outputs.c.installation.is_(None) | outputs.c.installation.in_(["", installation])
    row = connection.execute(sa.select(outputs.c.epoch, outputs.c.version).where(mine)).one_or_none()
    return OutputClaim(epoch=row.epoch, version=row.version or "") if row is not None else None


def add_missing_column(connection: Connection, outputs: Table) -> None:
    """Give a table of outputs that an older writer made the column that it lacks; older writers pass over it."""
    import sqlalchemy as sa

    there = {column["name"] for column in sa.inspect(connection).get_columns(outputs.name)}
    if "installation" not in there:
        connection.execute(sa.text(f"ALTER TABLE {quoted(connection, outputs.name)} ADD COLUMN installation TEXT"))


def move_epoch(
    connection: Connection, outputs: Table, output: str, owner: str, epoch: int, *, installation: str = ""
) -> None:
    """Move an output's row up to the epoch.

    Raises Fenced, InvalidInput when it is another query's, OperationRefused when it is another installation's.
    """
    import sqlalchemy as sa

    row = read_row(connection, outputs, output)
    if row is None:
        mine = {"installation": installation or None}
        connection.execute(sa.insert(outputs).values(output=output, owner=owner, epoch=epoch, **mine))
        return
    _check_owner(output, row, owner)
    check_installation(f"table {output}", row.installation, installation)
    if row.epoch > epoch:
        raise Fenced(f"table {output}: epoch {epoch} has been superseded by epoch {row.epoch}")
    whose = row.installation or installation or None
    connection.execute(sa.update(outputs).where(outputs.c.output == output).values(epoch=epoch, installation=whose))


def check_shadow(
    connection: Connection, outputs: Table, table: str, version: str, owner: str, *, installation: str = ""
) -> None:
    """Raise Fenced when the version serves already, InvalidInput when its table is not ours or could not be swapped."""
    import sqlalchemy as sa

    serving, name = read_row(connection, outputs, table), version_table(table, version)
    if serving is not None:
        _check_owner(table, serving, owner)
        check_installation(f"table {table}", serving.installation, installation)
        if serving.version == version:
            raise Fenced(f"table {table}: {version} is current and no longer a shadow")
    refuse_dependents(connection, table)
    if read_row(connection, outputs, name) is None and sa.inspect(connection).has_table(name):
        raise InvalidInput(f"table {name} already exists, and no writer of {table} created it", hint="rename it")


def swap_in(connection: Connection, outputs: Table, table: str, lineage: Sequence[str]) -> bool:
    """Let a version's own table serve, if it has one, and keep the one that served; False when nothing is swapped.

    ``lineage``: the version, the one whose output it carries on, and so forth; where the version has no table yet, that
    of the nearest of them is meant, unless one of them serves: a table goes by the version that wrote to it last.
    Whoever still writes to one of these tables, staged rows or not, finds another epoch than its own there.
    Raises InvalidInput when the swap would take a table away and have none to put in its place, and OutputLost when
    that one has batches on record and is missing.
    """
    import sqlalchemy as sa

    serving = read_row(connection, outputs, table)
    coming = _find_coming(connection, outputs, table, serving, lineage) if serving is not None else None
    if serving is None or coming is None:
        return False
    name: str = coming.output
    if coming.version is None and serving.version is not None:
        raise InvalidInput(f"table {name} has no batch, so it cannot replace {table}", hint="wait for its first batch")
    refuse_dependents(connection, table)
    swaps, serves = (sa.inspect(connection).has_table(each) for each in (name, table))
    # Without a table that serves, the driver has asked a person about the loss before.
    if serves and not swaps and coming.version is not None:
        raise OutputLost(
            f"table {name} is missing, although batch {coming.batch_id} of {coming.version} is recorded in it:"
            f" it cannot replace {table}",
            hint=f"put {name} back from a backup of the database, or keep the current version",
        )
    if swaps and serves:
        carry_grants(connection, table, name)
    retained = _retire(connection, outputs, table, serving, newer_than=coming.epoch)
    if swaps:
        rename_table(connection, name, table)
    place = {"version": coming.version, "batch_id": coming.batch_id}
    connection.execute(sa.update(outputs).where(outputs.c.output == table).values(**place))
    drop_version(connection, outputs, name)
    drop_staging_table(connection, table)
    for other in _other_versions(connection, outputs, table, serving.owner):
        if other != retained:
            drop_version(connection, outputs, other)
    return True


def drop_version(connection: Connection, outputs: Table, name: str) -> None:
    """Drop a version's table and staging table, and delete its row, as far as they are there."""
    import sqlalchemy as sa

    drop_staging_table(connection, name)
    _drop_table(connection, name)
    connection.execute(sa.delete(outputs).where(outputs.c.output == name))


def drop_staging_table(connection: Connection, table: str) -> None:
    """Drop a table's staging table; leave a table of that name that is somebody else's."""
    try:
        staged = find_staging_table(connection, table)
    except InvalidInput:
        return
    if staged is not None:
        _drop_table(connection, staged)


def rename_table(connection: Connection, old: str, new: str) -> None:
    """Rename; views of SQLite go on to mean the old name."""
    import sqlalchemy as sa

    if connection.dialect.name == "sqlite":
        connection.execute(sa.text("PRAGMA legacy_alter_table = ON"))
    connection.execute(sa.text(f"ALTER TABLE {quoted(connection, old)} RENAME TO {quoted(connection, new)}"))


def _find_coming(
    connection: Connection, outputs: Table, table: str, serving: Row[Any], lineage: Sequence[str]
) -> Row[Any] | None:
    for version in lineage:
        if serving.version == version:
            return None
        row = read_row(connection, outputs, version_table(table, version))
        if row is not None and row.owner == serving.owner:
            return row
    return None


def _retire(connection: Connection, outputs: Table, table: str, serving: Row[Any], *, newer_than: int) -> str:
    """Move the serving table out of the way, with a row that no writer's epoch fits; its name, empty if there is none.

    One that was never written has no version to be kept under.
    """
    import sqlalchemy as sa

    if not sa.inspect(connection).has_table(table):
        return ""
    if serving.version is None:
        if connection.execute(sa.text(f"SELECT 1 FROM {quoted(connection, table)} LIMIT 1")).first() is not None:
            raise InvalidInput(f"table {table} has rows that no batch wrote", hint="rename or empty it")
        _drop_table(connection, table)
        return ""
    retained = version_table(table, serving.version)
    if (row := read_row(connection, outputs, retained)) is not None:
        _check_owner(retained, row, serving.owner)
        drop_version(connection, outputs, retained)
    if sa.inspect(connection).has_table(retained):
        raise InvalidInput(
            f"table {retained} already exists: the old {table} must be kept under that name", hint="rename it"
        )
    rename_table(connection, table, retained)
    connection.execute(
        sa.insert(outputs).values(
            output=retained,
            owner=serving.owner,
            epoch=max(serving.epoch, newer_than + 1),
            version=serving.version,
            batch_id=serving.batch_id,
            installation=serving.installation,
        )
    )
    return retained


def _other_versions(connection: Connection, outputs: Table, table: str, owner: str) -> list[str]:
    import sqlalchemy as sa

    found = connection.execute(sa.select(outputs.c.output).where(outputs.c.owner == owner)).scalars()
    return [name for name in found if version_in_name(table, name)]


def _drop_table(connection: Connection, name: str) -> None:
    import sqlalchemy as sa

    connection.execute(sa.text(f"DROP TABLE IF EXISTS {quoted(connection, name)}"))


def _check_owner(output: str, row: Row[Any], owner: str) -> None:
    if row.owner != owner:
        raise InvalidInput(
            f"table {output} is written by {row.owner}, not by {owner}", hint="give each query its own table"
        )
