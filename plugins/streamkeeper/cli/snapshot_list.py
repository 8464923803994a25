"""``snapshot list``: print each snapshot with its age, whether a drill has verified it, and why it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from rich.text import Text

from streamkeeper.cli.listing import ListRow, one_line, print_rows
from streamkeeper.cli.terminal import echo, echo_json
from streamkeeper.model.coding import to_json
from streamkeeper.model.records.snapshot import Snapshot
from streamkeeper.model.watch.quantities import tell_age, tell_size
from streamkeeper.operations.backups.snapshot_rows import ListedSnapshot, moment_taken, said_of

HEADERS = ("series", "snapshot", "batch", "taken", "age", "size", "new", "verified")


def print_json(listed: Iterable[ListedSnapshot]) -> None:
    """Print each snapshot as one JSON object on its own line. Report snapshots that cannot be read on stderr."""
    for row in listed:
        if row.snapshot is None:
            echo(f"{row.series} {row.name}  {row.error}", err=True)
            continue
        row_fields = {"drills": row.drills, "pin": row.pin, "holds": row.holds, "keep": row.keep, "kept": row.kept}
        said = list(said_of(row.drills, row.pin, row.holds))
        echo_json(to_json({**described(row.snapshot), "verified": row.verified, **row_fields, "said": said}))


def show_snapshots(listed: Iterable[ListedSnapshot], *, now: datetime) -> None:
    """Print the snapshots as a table; ``now``: a time with a zone, from which ages are counted."""
    print_rows(HEADERS, [_row(row, now) for row in listed])


def described(snapshot: Snapshot) -> dict[str, object]:
    """Return the fields of a snapshot, without its list of files."""
    names = ("series", "checkpoint", "version", "release", "query_id", "batch", "pending", "offsets", "watermark_ms")
    found: dict[str, object] = {name: getattr(snapshot, name) for name in (*names, "taken_at", "stored")}
    return {"snapshot": snapshot.name, **found, "bytes": snapshot.bytes, "packs": len(snapshot.packs)}


def _row(listed: ListedSnapshot, now: datetime) -> ListRow:
    snapshot = listed.snapshot
    if snapshot is None:
        nothing = ("-",) * (len(HEADERS) - 2)
        return ListRow(cells=(listed.series, listed.name, *nothing), notes=(Text(one_line(listed.error), style="red"),))
    taken = moment_taken(snapshot)
    cells = (
        listed.series,
        listed.name,
        f"{snapshot.batch}",
        f"{taken.astimezone(UTC):%Y-%m-%d %H:%M}Z",
        tell_age((now - taken).total_seconds()),
        tell_size(snapshot.bytes),
        tell_size(snapshot.stored),
        {None: "no", False: "FAILED", True: "yes"}[listed.verified],
    )
    style = {None: "dim", False: "bold red", True: "green"}[listed.verified]
    return ListRow(cells=cells, notes=tuple(_notes(listed)), styles=((len(HEADERS) - 1, style),))


def _notes(listed: ListedSnapshot) -> Iterator[Text]:
    if listed.told_drill:
        yield Text(one_line(listed.told_drill), style="" if listed.verified else "red")
    yield Text(one_line(listed.told_kept), style="dim" if listed.keep else "yellow")
