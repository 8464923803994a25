"""``snapshot list``: how old each snapshot is, whether a drill has resumed it, and what keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec
import typer
from rich.text import Text

from streamkeeper.cli.listing import Row, one_line, print_rows
from streamkeeper.errors import FormatTooNew, NotFound, SnapshotDamaged
from streamkeeper.model.coding import to_json
from streamkeeper.model.quantities import tell_age, tell_size
from streamkeeper.model.snapshot import DrillResult, Hold, Pin, Snapshot, snapshot_name
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.retention import Candidate, Policy, decide_retention
from streamkeeper.snapshots.sweep import is_over

HEADERS = ("series", "snapshot", "batch", "taken", "age", "size", "new", "verified")
_NOTHING_GOES = "nothing of this series is pruned while a record of it cannot be read"


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot and all that is known of it; ``error``: why its record cannot be read.

    ``kept``: every reason for which the next prune keeps it, or why none does.
    """

    series: str
    number: int
    snapshot: Snapshot | None = None
    error: str = ""
    drills: tuple[DrillResult, ...] = ()
    pin: Pin | None = None
    holds: tuple[Hold, ...] = ()
    keep: bool = True
    kept: tuple[str, ...] = ()

    @property
    def verified(self) -> bool | None:
        """By its newest drill; None without one."""
        return self.drills[-1].ok if self.drills else None


def list_snapshots(catalogue: Catalogue, policy: Policy) -> list[Listed]:
    """All of a series, oldest first; one that a prune takes away meanwhile is left out."""
    found = [row for number in catalogue.numbers() if (row := _read(catalogue, number)) is not None]
    readable = [row for row in found if row.snapshot is not None]
    if len(readable) < len(found):
        return [msgspec.structs.replace(row, kept=(_NOTHING_GOES,)) for row in found]
    now = datetime.now(UTC)
    candidates = [
        Candidate(
            number=row.number,
            taken_at=_moment(row.snapshot.taken_at),
            verified=bool(row.verified),
            pinned=(row.pin.reason or "no reason given") if row.pin else "",
            held_by=tuple(hold.owner for hold in row.holds if not is_over(hold, now)),
        )
        for row in readable
        if row.snapshot is not None
    ]
    decided = {decision.number: decision for decision in decide_retention(candidates, policy)}
    return [
        msgspec.structs.replace(row, keep=decided[row.number].keep, kept=decided[row.number].reasons) for row in found
    ]


def print_json(listed: Iterable[Listed]) -> None:
    """One object a line; what cannot be read is told on stderr."""
    for row in listed:
        if row.snapshot is None:
            typer.echo(f"{row.series} {snapshot_name(row.number)}  {row.error}", err=True)
            continue
        told = {"drills": row.drills, "pin": row.pin, "holds": row.holds, "keep": row.keep, "kept": row.kept}
        said = list(said_of(row.drills, row.pin, row.holds))
        typer.echo(to_json({**described(row.snapshot), "verified": row.verified, **told, "said": said}))


def show_snapshots(listed: Iterable[Listed], *, now: datetime) -> None:
    """As a table; ``now``: aware."""
    print_rows(HEADERS, [_row(row, now) for row in listed])


def said_of(drills: Sequence[DrillResult], pin: Pin | None, holds: Iterable[Hold]) -> Iterator[str]:
    """What was said of a snapshot after it was taken, a line each; ``drills``: oldest first."""
    if drills:
        yield f"{'verified' if drills[-1].ok else 'drill failed'} {drills[-1].at}"
    if pin is not None:
        yield f"pinned: {pin.reason}"
    yield from (f"held by {hold.owner}: {hold.reason}" for hold in holds)


def described(snapshot: Snapshot) -> dict[str, object]:
    """A snapshot without its files."""
    names = ("series", "checkpoint", "version", "release", "query_id", "batch", "pending", "offsets", "watermark_ms")
    found: dict[str, object] = {name: getattr(snapshot, name) for name in (*names, "taken_at", "stored")}
    return {"snapshot": snapshot.name, **found, "bytes": snapshot.bytes, "packs": len(snapshot.packs)}


def _read(catalogue: Catalogue, number: int) -> Listed | None:
    try:
        snapshot = catalogue.read(number)
        return Listed(
            series=catalogue.series,
            number=number,
            snapshot=snapshot,
            drills=tuple(catalogue.drills(number)),
            pin=catalogue.pin_of(number),
            holds=tuple(catalogue.holds(number)),
        )
    except NotFound:
        return None
    except (SnapshotDamaged, FormatTooNew) as error:
        return Listed(series=catalogue.series, number=number, error=f"cannot be read: {error}")


def _row(listed: Listed, now: datetime) -> Row:
    name, snapshot = snapshot_name(listed.number), listed.snapshot
    if snapshot is None:
        nothing = ("-",) * (len(HEADERS) - 2)
        return Row(cells=(listed.series, name, *nothing), notes=(Text(one_line(listed.error), style="red"),))
    taken = _moment(snapshot.taken_at)
    cells = (
        listed.series,
        name,
        f"{snapshot.batch}",
        f"{taken.astimezone(UTC):%Y-%m-%d %H:%M}Z",
        tell_age((now - taken).total_seconds()),
        tell_size(snapshot.bytes),
        tell_size(snapshot.stored),
        {None: "no", False: "FAILED", True: "yes"}[listed.verified],
    )
    style = {None: "dim", False: "bold red", True: "green"}[listed.verified]
    return Row(cells=cells, notes=tuple(_notes(listed)), styles=((len(HEADERS) - 1, style),))


def _notes(listed: Listed) -> Iterator[Text]:
    if listed.drills:
        last = listed.drills[-1]
        by = f" on {last.release}" if last.release else ""
        told = f"{'verified' if last.ok else 'NOT verified'} {last.at[:19]} by drill {last.id}{by}: {last.message}"
        yield Text(one_line(told), style="" if last.ok else "red")
    reasons = ", ".join(listed.kept)
    kept = f"kept: {reasons}" if listed.keep else f"goes with the next prune: {reasons}"
    yield Text(one_line(kept), style="dim" if listed.keep else "yellow")


def _moment(text: str) -> datetime:
    """As retention reads it: what names no zone is UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)
