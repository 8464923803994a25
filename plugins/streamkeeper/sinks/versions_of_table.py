"""The tables of one output's checkpoint versions, and the swap that makes another version's table current.

``totals`` is current. ``totals__v0003`` is either written in shadow, or was replaced last and is kept for a rollback.
Each has its own row in ``streamkeeper_outputs``, and that row's owner marks the table as Streamkeeper's. SQLite and
PostgreSQL create, rename and drop tables inside a transaction, so a swap is visible completely or not at all.

Internal tables have reserved names, which no new output may take. A name alone proves nothing: a version's table is
dropped because of its row, a staging table because of its columns, and any other table of such a name is left
unchanged.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from streamkeeper.errors import Fenced, InvalidInput, OutputLost
from streamkeeper.sinks.contract import OutputClaim, WriterRole, check_installation, refuse_older_copy
from streamkeeper.sinks.staging import check_epoch
from streamkeeper.sinks.table_dependents import carry_grants, has_rows, quoted, refuse_dependents
from streamkeeper.sinks.table_segments import earlier_segments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row, Table

    from streamkeeper.sinks.contract import SinkContext

_RESERVED = re.compile(r"streamkeeper_.*|.*__staged|.*__v\d{4,}")
_STAGING_KEY = {"_sk_token", "_sk_part", "_sk_row"}


def is_reserved(table: str) -> bool:
    """Whether Streamkeeper uses the name for its own tables."""
    return _RESERVED.fullmatch(table) is not None


def version_table(table: str, version: str) -> str:
    """Return the name of a version's table while it is not current."""
    return f"{table}__{version}"


def version_in_name(table: str, name: str) -> str:
    """Return the version in ``name``, such as v0003 in ``totals__v0003``; empty if ``name`` has another form."""
    found = re.fullmatch(rf"{re.escape(table)}__(v\d{{4,}})", name)
    return found[1] if found else ""


def staged_name(table: str) -> str:
    """Return the name of a table's staging table."""
    return f"{table}__staged"


def find_staging_table(connection: Connection, table: str) -> str | None:
    """Return the name of a table's staging table; None if the table has no staging table.

    Raises InvalidInput if there is a table of that name that Streamkeeper did not create. Staging tables are recognised
    by their key of ``_sk_`` columns, because no output has columns that start with ``_sk_``.
    """
    import sqlalchemy as sa

    name, inspector = staged_name(table), sa.inspect(connection)
    if not inspector.has_table(name):
        return None
    if {*inspector.get_pk_constraint(name)["constrained_columns"]} != _STAGING_KEY:
        raise InvalidInput(
            f"table {name} exists and Streamkeeper did not create it, but Streamkeeper needs this name to stage rows of"
            f" {table}",
            hint="rename that table, or write to another output table",
        )
    return name


def read_row(connection: Connection, outputs: Table, output: str) -> Row[Any] | None:
    """Return an output's row, or None if it has no row. The row is locked against changes by other transactions until
    this transaction ends.
    """
    import sqlalchemy as sa

    return connection.execute(sa.select(outputs).where(outputs.c.output == output).with_for_update()).one_or_none()


def read_claim(connection: Connection, outputs: Table, table: str, owner: str, installation: str) -> OutputClaim | None:
    """Return a table's last claim; None if the table has no claim, or if another query or another installation made it.

    ``connection``: the open connection. ``outputs``: the table of outputs. ``table``: the output's table. ``owner``:
    this query, ``<job>/<query>``. ``installation``: this installation's id, empty if unknown.
    """
    import sqlalchemy as sa

    mine = (outputs.c.output == table) & (outputs.c.owner == owner)
    # Older writers created the table without the installation's column.
    if installation and "installation" in {
        column["name"] for column in sa.inspect(connection).get_columns(outputs.name)
    }:
        mine &= outputs.c.installation.is_(None) | outputs.c.installation.in_(["", installation])
    row = connection.execute(sa.select(outputs.c.epoch, outputs.c.version).where(mine)).one_or_none()
    return OutputClaim(epoch=row.epoch, version=row.version or "") if row is not None else None


def move_epoch(
    connection: Connection, outputs: Table, output: str, owner: str, epoch: int, *, installation: str = ""
) -> None:
    """Advance an output's row to the epoch, or create the row with this epoch.

    ``connection``: the open transaction.
    ``outputs``: the table of outputs.
    ``output``: the output's table.
    ``owner``: this query, ``<job>/<query>``.
    ``epoch``: the new epoch.
    ``installation``: this installation's id, empty if unknown.

    Raises Fenced if the row has a newer epoch, InvalidInput if the row belongs to another query, OperationRefused if it
    belongs to another installation.
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


def claim_batch(
    connection: Connection,
    outputs: Table,
    table: str,
    context: SinkContext,
    batch_id: int,
    *,
    held: int | None,
    earlier: Mapping[str, Any] = {},
) -> bool:
    """Claim a batch's number under the writer's epoch; return False if the batch is already written.

    Raises Fenced, and OutputLost if the record is not what it was when the write started: an older copy of the database
    may have been put in its place while the batch was staged.

    ``connection``: the open transaction.
    ``outputs``: the table of outputs.
    ``table``: the output's table.
    ``context``: the writer.
    ``batch_id``: the number of the batch.
    ``held``: the newest batch of the writer's version when the write started; None without one.
    ``earlier``: further columns of the output's row to set, by name.
    """
    import sqlalchemy as sa

    own = outputs.c.version == context.version
    same = own & (outputs.c.batch_id == held)
    if held is None:
        same = outputs.c.version.is_distinct_from(context.version) | outputs.c.batch_id.is_(None)
    mine = sa.update(outputs).where(outputs.c.output == table, outputs.c.epoch == context.epoch, same)
    if connection.execute(mine.values(batch_id=batch_id, version=context.version, **earlier)).rowcount == 1:
        return True
    check_epoch(connection, outputs, table, context.epoch, in_shadow=context.role is WriterRole.SHADOW)
    wanted = sa.select(outputs.c.batch_id).where(outputs.c.output == table, own)
    last = connection.execute(wanted).scalar_one_or_none()
    refuse_older_copy(table, context.version, held, last)
    if last is None or last < batch_id:
        raise OutputLost(
            f"table {table}: the record of {context.version} changed while batch {batch_id} was staged",
            hint="restore the output, then run `streamkeeper recover JOB`",
        )
    return False


def check_shadow(
    connection: Connection, outputs: Table, table: str, version: str, owner: str, *, installation: str = ""
) -> None:
    """Raise an error if a version cannot be written in shadow and then replace the current table.

    Raises Fenced if the version is already current, and Unsupported if objects such as views would stay with the old
    table. Raises InvalidInput if a foreign table has the name of the version's table, or if another query writes the
    output. Raises OperationRefused if another installation writes the output.

    ``connection``: the open transaction.
    ``outputs``: the table of outputs.
    ``table``: the output's table.
    ``version``: the shadow's version.
    ``owner``: this query, ``<job>/<query>``.
    ``installation``: this installation's id, empty if unknown.
    """
    import sqlalchemy as sa

    serving, name = read_row(connection, outputs, table), version_table(table, version)
    if serving is not None:
        _check_owner(table, serving, owner)
        check_installation(f"table {table}", serving.installation, installation)
        if serving.version == version:
            raise Fenced(f"table {table}: {version} is current and no longer a shadow")
    refuse_dependents(connection, table)
    if read_row(connection, outputs, name) is None and sa.inspect(connection).has_table(name):
        raise InvalidInput(
            f"table {name} already exists, and no writer of {table} created it", hint=f"rename table {name}"
        )


def swap_in(connection: Connection, outputs: Table, table: str, lineage: Sequence[str]) -> bool:
    """Make a version's own table current and keep the previous table; return False if no table is swapped.

    ``lineage``: the version, then the version whose output it continues, and so on. A table belongs to the version that
    wrote to it last, so the newest versions may own none. The first version in ``lineage`` that owns a table provides
    the new current table. No table is swapped if the version that readers see now is a newer one of ``lineage``.

    After the swap, a writer that still writes to one of the two tables fails its check of the epoch, whether or not it
    has staged rows.

    Raises InvalidInput if the swap would remove the current table without a replacement, and OutputLost if the
    replacement is missing although batches are recorded for it.
    """
    import sqlalchemy as sa

    serving = read_row(connection, outputs, table)
    coming = _find_coming(connection, outputs, table, serving, lineage) if serving is not None else None
    if serving is None or coming is None:
        return False
    name: str = coming.output
    if coming.version is None and serving.version is not None:
        raise InvalidInput(
            f"table {name} has no batch, so it cannot replace {table}", hint="wait until that table has its first batch"
        )
    refuse_dependents(connection, table)
    swaps, serves = (sa.inspect(connection).has_table(each) for each in (name, table))
    # Without a current table, a person has already decided about the loss.
    if serves and not swaps and coming.version is not None:
        raise OutputLost(
            f"table {name} is missing, although batch {coming.batch_id} of {coming.version} is recorded as"
            f" written to it, so {name} cannot replace {table}",
            hint=f"put {name} back from a backup of the database, or keep the current version",
        )
    if swaps and serves:
        carry_grants(connection, table, name)
    retained = _retire(connection, outputs, table, serving, newer_than=coming.epoch)
    if swaps:
        rename_table(connection, name, table)
    place = {"version": coming.version, "batch_id": coming.batch_id, **_segments(coming)}
    connection.execute(sa.update(outputs).where(outputs.c.output == table).values(**place))
    drop_version(connection, outputs, name)
    drop_staging_table(connection, table)
    for other in _other_versions(connection, outputs, table, serving.owner):
        if other != retained:
            drop_version(connection, outputs, other)
    return True


def put_aside(connection: Connection, outputs: Table, table: str) -> None:
    """Keep the current table for a rollback, and record that the output has no batch. The next batch creates the table.

    ``connection``: the open transaction. ``outputs``: the table of outputs. ``table``: the output's table.
    """
    import sqlalchemy as sa

    serving = read_row(connection, outputs, table)
    assert serving is not None, "the fence creates the output's row"
    refuse_dependents(connection, table)
    retained = _retire(connection, outputs, table, serving, newer_than=serving.epoch)
    drop_staging_table(connection, table)
    for other in _other_versions(connection, outputs, table, serving.owner) if retained else ():
        if other != retained:
            drop_version(connection, outputs, other)
    place = {"version": None, "batch_id": None, "segments": "[]"}
    connection.execute(sa.update(outputs).where(outputs.c.output == table).values(**place))


def carry_grants_of_kept(connection: Connection, outputs: Table, table: str, owner: str) -> None:
    """Give other roles the same privileges on a new table as on the table that it replaces, if that one is kept.

    ``connection``: the open transaction. ``outputs``: the table of outputs. ``table``: the new table. ``owner``: its
    query, ``<job>/<query>``.
    """
    for kept in _other_versions(connection, outputs, table, owner):
        carry_grants(connection, kept, table)


def drop_version(connection: Connection, outputs: Table, name: str) -> None:
    """Drop a version's table and staging table, and delete its row, if they exist."""
    import sqlalchemy as sa

    drop_staging_table(connection, name)
    _drop_table(connection, name)
    connection.execute(sa.delete(outputs).where(outputs.c.output == name))


def drop_staging_table(connection: Connection, table: str) -> None:
    """Drop a table's staging table; a foreign table of that name is left unchanged."""
    try:
        staged = find_staging_table(connection, table)
    except InvalidInput:
        return
    if staged is not None:
        _drop_table(connection, staged)


def rename_table(connection: Connection, old: str, new: str) -> None:
    """Rename a table. SQLite's views keep referring to the old name."""
    import sqlalchemy as sa

    if connection.dialect.name == "sqlite":
        connection.execute(sa.text("PRAGMA legacy_alter_table = ON"))
    connection.execute(sa.text(f"ALTER TABLE {quoted(connection, old)} RENAME TO {quoted(connection, new)}"))


def _find_coming(
    connection: Connection, outputs: Table, table: str, serving: Row[Any], lineage: Sequence[str]
) -> Row[Any] | None:
    """Return the row of the table to make current. Return None if a version of the lineage is already current, or if no
    version of the lineage has a table.

    ``connection``: the open transaction. ``outputs``: the table of outputs. ``table``: the output's table. ``serving``:
    its row. ``lineage``: as in ``swap_in``.
    """
    others = _other_versions(connection, outputs, table, serving.owner)
    for version in lineage:
        if version == serving.version or version in _earlier(serving):
            return None
        own = version_table(table, version)
        for name in dict.fromkeys([own, *others]):
            row = read_row(connection, outputs, name)
            if row is not None and row.owner == serving.owner and (name == own or version in _earlier(row)):
                return row
    return None


def _earlier(row: Row[Any]) -> set[str]:
    return {segment.version for segment in earlier_segments(row)}


def _retire(connection: Connection, outputs: Table, table: str, serving: Row[Any], *, newer_than: int) -> str:
    """Rename the current table and record its row with an epoch that no writer has. Return the table's new name, empty
    if no table is kept.

    ``connection``: the open transaction. ``outputs``: the table of outputs. ``table``: the output's table. ``serving``:
    its row. ``newer_than``: the retained row gets a higher epoch than this.

    A table that was never written has no version under which it could be kept, and is dropped.
    """
    import sqlalchemy as sa

    if not sa.inspect(connection).has_table(table):
        return ""
    if serving.version is None:
        if has_rows(connection, table):
            raise InvalidInput(f"table {table} has rows that no batch wrote", hint="rename or empty that table")
        _drop_table(connection, table)
        return ""
    retained = version_table(table, serving.version)
    if (row := read_row(connection, outputs, retained)) is not None:
        _check_owner(retained, row, serving.owner)
        drop_version(connection, outputs, retained)
    if sa.inspect(connection).has_table(retained):
        raise InvalidInput(
            f"table {retained} already exists, but the old {table} must be kept under that name",
            hint=f"rename table {retained}",
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
            **_segments(serving),
        )
    )
    return retained


def _segments(row: Row[Any]) -> dict[str, str | None]:
    return {"segments": row.segments} if "segments" in row._mapping else {}


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
