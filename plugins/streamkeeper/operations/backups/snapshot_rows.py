"""The snapshots of a series, with their drills, pins, holds and retention reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from streamkeeper.errors import FormatTooNew, NotFound, SnapshotDamaged
from streamkeeper.model.records.snapshot import DrillResult, Hold, Pin, Snapshot, snapshot_name
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.retention import Candidate, Policy, decide_retention
from streamkeeper.snapshots.sweep import is_over
from streamkeeper.system import clock

_NOTHING_GOES = "no snapshot of this series is pruned while one of its records cannot be read"


class ListedSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot in the list."""

    series: str
    """The series of the snapshot."""
    number: int
    """The snapshot's number."""
    snapshot: Snapshot | None = None
    """The snapshot's record; None if the record cannot be read."""
    error: str = ""
    """Why the record cannot be read; else empty."""
    drills: tuple[DrillResult, ...] = ()
    """The snapshot's drills, oldest first."""
    pin: Pin | None = None
    """The snapshot's pin; None without one."""
    holds: tuple[Hold, ...] = ()
    """The snapshot's holds."""
    keep: bool = True
    """Whether the next prune keeps the snapshot."""
    kept: tuple[str, ...] = ()
    """The reasons for ``keep``."""

    @property
    def name(self) -> str:
        """The snapshot's name, such as ``s0007``."""
        return snapshot_name(self.number)

    @property
    def verified(self) -> bool | None:
        """Whether the snapshot passed its newest drill; None without a drill."""
        return self.drills[-1].ok if self.drills else None

    @property
    def told_drill(self) -> str:
        """The result of the snapshot's newest drill, in one sentence; empty without a drill."""
        if not self.drills:
            return ""
        last = self.drills[-1]
        by = f" on {last.release}" if last.release else ""
        return f"{'verified' if last.ok else 'NOT verified'} {last.at[:19]} by drill {last.id}{by}: {last.message}"

    @property
    def told_kept(self) -> str:
        """The effect of the next prune on the snapshot, and the reasons."""
        reasons = ", ".join(self.kept)
        return f"kept: {reasons}" if self.keep else f"removed by the next prune: {reasons}"


def list_snapshots(catalogue: Catalogue, policy: Policy) -> list[ListedSnapshot]:
    """Return the snapshots of a series, oldest first, without snapshots that a prune removes during the call. Raises
    StoreUnavailable.
    """
    found = [row for number in catalogue.numbers() if (row := _read(catalogue, number)) is not None]
    readable = [row for row in found if row.snapshot is not None]
    if len(readable) < len(found):
        return [msgspec.structs.replace(row, kept=(_NOTHING_GOES,)) for row in found]
    now = clock.now()
    candidates = [
        Candidate(
            number=row.number,
            taken_at=moment_taken(row.snapshot),
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


def said_of(drills: Sequence[DrillResult], pin: Pin | None, holds: Iterable[Hold]) -> Iterator[str]:
    """Yield one line each for the newest drill, the pin and every hold of a snapshot; ``drills``: oldest first."""
    if drills:
        yield f"{'verified' if drills[-1].ok else 'drill failed'} {drills[-1].at}"
    if pin is not None:
        yield f"pinned: {pin.reason}"
    yield from (f"held by {hold.owner}: {hold.reason}" for hold in holds)


def moment_taken(snapshot: Snapshot) -> datetime:
    """Return when a snapshot was taken, for the retention rules; a time without a zone counts as UTC."""
    return datetime.fromisoformat(snapshot.taken_at).astimezone(UTC)


def _read(catalogue: Catalogue, number: int) -> ListedSnapshot | None:
    try:
        snapshot = catalogue.read(number)
        return ListedSnapshot(
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
        return ListedSnapshot(series=catalogue.series, number=number, error=f"cannot be read: {error}")
