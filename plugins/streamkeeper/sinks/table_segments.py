"""The segments of a table whose rows have no key: the checkpoint versions that wrote its rows, each up to a batch.

The output's row contains the newest segment in the columns ``version`` and ``batch_id``, and the earlier segments as
JSON, such as ``[["v0001", 7]]``. Each row of the table names its version and batch. After a restore, the rows of later
batches can therefore be deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from streamkeeper.checkpoints.layout import is_version_name
from streamkeeper.errors import OutputUnfit
from streamkeeper.model.names import version_number
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.staging import BATCH_COLUMN, VERSION_COLUMN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row, Table, TableClause


def is_numbered(row: Row[Any]) -> bool:
    """Whether an output's row is that of a table without a key. A writer records the segments of such a table from its
    first fence on.
    """
    return row._mapping.get("segments") is not None


def earlier_segments(row: Row[Any]) -> list[OutputSegment]:
    """Return the segments of an output's row before the newest one, oldest first."""
    return read_segments(row._mapping.get("segments"))


def read_segments(text: object) -> list[OutputSegment]:
    """Return the segments in a value of the column ``segments``; none for a table with a key."""
    found = msgspec.json.decode(str(text), type=list[tuple[str, int]]) if text else []
    return [OutputSegment(version, last) for version, last in found]


def segments_of(row: Row[Any]) -> list[OutputSegment]:
    """Return all segments of an output's row, oldest first."""
    newest = [OutputSegment(row.version, row.batch_id)] if row.version is not None else []
    return [*earlier_segments(row), *newest]


def as_text(segments: Sequence[OutputSegment]) -> str:
    """Return segments as the text of the column ``segments``."""
    return msgspec.json.encode([(segment.version, segment.last) for segment in segments]).decode()


def cut_back(connection: Connection, outputs: Table, row: Row[Any], serving: Sequence[OutputSegment]) -> None:
    """Delete the rows of batches that readers of a version must not see, and record the remaining segments.

    The newest segment of ``serving`` that the table has decides: its later batches and all later segments are deleted.
    Earlier segments stay, also if ``serving`` does not name them, because a rebuilt journal does not know them.

    ``connection``: the open transaction. ``outputs``: the table of outputs. ``row``: the output's row. ``serving``:
    the segments that readers may see, oldest first; the last one is of the version that continues the output.

    Raises OutputUnfit if the table has batches, but none of a segment of ``serving``. Raises it also if the table's
    record is lost, and the table has rows of a later version that is not in ``serving``.
    """
    import sqlalchemy as sa

    held = segments_of(row)
    left = _remaining(held, serving)
    if left is None and held:
        *parents, version = (segment.version for segment in serving)
        what = f"{parents[-1]}, which {version} continues" if parents else version
        raise OutputUnfit(
            f"table {row.output} has no batch of {what}: its newest batch is {held[-1].last} of {held[-1].version}",
            hint="restore the table from a backup of the database, or rebuild it with `--strategy rebuild`",
        )
    if not held:
        # Only the record is lost: the limits still apply to the rows.
        _refuse_other_versions(connection, row.output, serving)
        for limit in serving:
            if limit.last is not None:
                delete_after(connection, row.output, limit.version, limit.last)
    kept = {segment.version: segment.last for segment in left or []}
    for segment in held:
        if kept.get(segment.version, -1) != segment.last:
            delete_after(connection, row.output, segment.version, kept.get(segment.version, -1))
    *earlier, newest = left or [OutputSegment("", None)]
    place = {"version": newest.version or None, "batch_id": newest.last, "segments": as_text(earlier)}
    connection.execute(sa.update(outputs).where(outputs.c.output == row.output).values(**place))


def _remaining(held: Sequence[OutputSegment], serving: Sequence[OutputSegment]) -> list[OutputSegment] | None:
    """Return the segments that remain of ``held``; None if it has no segment of ``serving``."""
    positions = {segment.version: position for position, segment in enumerate(held)}
    for limit in reversed(serving):
        if limit.version in positions:
            position = positions[limit.version]
            last = held[position].last
            cut = last if limit.last is None or last is None else min(last, limit.last)
            return [*held[:position], *([] if cut == -1 else [OutputSegment(limit.version, cut)])]
    return None


def _refuse_other_versions(connection: Connection, table: str, serving: Sequence[OutputSegment]) -> None:
    import sqlalchemy as sa

    if not sa.inspect(connection).has_table(table):
        return
    versions = sa.select(_numbers(table).c[VERSION_COLUMN]).distinct()
    names, first = {segment.version for segment in serving}, version_number(serving[0].version)
    for other in connection.execute(versions).scalars():
        if other not in names and is_version_name(other) and version_number(other) > first:
            raise OutputUnfit(
                f"table {table} has rows of {other}, which {serving[-1].version} does not continue, and its record in"
                " streamkeeper_outputs is lost",
                hint="restore the record from a backup of the database, or rebuild with `--strategy rebuild`",
            )


def delete_after(connection: Connection, table: str, version: str, last: int | None) -> None:
    """Delete a version's rows of batches after ``last``, if the table exists; -1 deletes all of them."""
    import sqlalchemy as sa

    if sa.inspect(connection).has_table(table):
        rows = _numbers(table)
        later = (rows.c[VERSION_COLUMN] == version) & (rows.c[BATCH_COLUMN] > last)
        connection.execute(sa.delete(rows).where(later))


def _numbers(table: str) -> TableClause:
    """Return a table with only the columns that number its rows."""
    import sqlalchemy as sa

    return sa.table(table, sa.column(VERSION_COLUMN), sa.column(BATCH_COLUMN))
