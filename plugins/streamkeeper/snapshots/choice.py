"""Selects one of several snapshots: the latest, or one by id, batch or time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from streamkeeper.errors import InvalidInput, NotFound, SnapshotDamaged
from streamkeeper.model.records.snapshot import Snapshot, snapshot_number
from streamkeeper.snapshots.catalogue import Catalogue


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The choice of a snapshot. At most one field is set; if no field is set, the latest snapshot is chosen.

    ``name``: choose the snapshot with this name. ``batch``: choose the newest snapshot of exactly this batch.
    ``moment``: choose the newest snapshot taken at or before this time (with a time zone).
    """

    name: str = ""
    batch: int | None = None
    moment: datetime | None = None


def read_choice(*, name: str = "", batch: int | None = None, moment: str = "") -> Choice:
    """Parse a choice from text. ``moment`` is ISO 8601, UTC unless it names a zone. Raises InvalidInput."""
    if sum((bool(name), batch is not None, bool(moment))) > 1:
        raise InvalidInput(
            "a snapshot is named by its id, by a batch or by a time, but more than one was given",
            hint="give only an id, only a batch or only a time",
        )
    if name:
        snapshot_number(name)
    return Choice(name=name, batch=batch, moment=_moment(moment) if moment else None)


def find_snapshot(catalogue: Catalogue, choice: Choice) -> Snapshot:
    """Return the chosen snapshot of a series. If the choice is a snapshot's name, no other snapshot is read.

    Raises NotFound, which names the available snapshots, SnapshotDamaged, FormatTooNew.
    """
    if choice.name:
        return catalogue.read(snapshot_number(choice.name))
    try:
        return _choose(catalogue.snapshots(), choice)
    except NotFound as error:
        raise NotFound(f"series {catalogue.series}: {error.message}", hint=error.hint) from None
    except SnapshotDamaged as error:
        raise SnapshotDamaged(
            error.message, hint="run `streamkeeper snapshot list`, then name another snapshot with `--id`"
        ) from None


def _choose(snapshots: Sequence[Snapshot], choice: Choice) -> Snapshot:
    """Choose among all snapshots, which are in order, by batch or time. Raises NotFound, which names the available
    ones.
    """
    if not snapshots:
        raise NotFound("there is no snapshot", hint="run `streamkeeper snapshot take`")
    if choice.batch is not None:
        fitting = [snapshot for snapshot in snapshots if snapshot.batch == choice.batch]
        wanted = f"of batch {choice.batch}"
    elif choice.moment is not None:
        fitting = [snapshot for snapshot in snapshots if datetime.fromisoformat(snapshot.taken_at) <= choice.moment]
        wanted = f"taken at or before {choice.moment.isoformat(timespec='seconds')}"
    else:
        # A snapshot taken later may be of an earlier batch: a deploy's cutover snapshot.
        newest = snapshots[-1]
        same = [
            snapshot
            for snapshot in snapshots
            if (snapshot.query_id, snapshot.version) == (newest.query_id, newest.version)
        ]
        fitting, wanted = sorted(same, key=lambda snapshot: (snapshot.batch, snapshot.number)), ""
    if not fitting:
        there = ", ".join(
            f"{snapshot.name} (batch {snapshot.batch}, {snapshot.taken_at[:19]}Z)" for snapshot in snapshots[-5:]
        )
        raise NotFound(f"there is no snapshot {wanted}", hint=f"choose one of the newest snapshots: {there}")
    return fitting[-1]


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a time", hint="write 2026-11-21T10:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
