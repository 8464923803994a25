"""Reads and writes one series of snapshots in a store, with the pins, holds and drills of each snapshot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import TypeVar

import msgspec

from streamkeeper.errors import KeyExists, KeyMissing, NotFound, RegistryDamaged, SnapshotDamaged
from streamkeeper.model.records.snapshot import (
    FORMAT,
    DrillResult,
    Garbage,
    Hold,
    Pack,
    Pin,
    Snapshot,
    check_series,
    padded,
    series_key,
    series_root,
    snapshot_name,
)
from streamkeeper.snapshots.packs import check_snapshot
from streamkeeper.snapshots.sealing import seal, unseal
from streamkeeper.stores.contract import Store
from streamkeeper.system.crash_points import crash_point

_SNAPSHOTS = "snapshots/"
_R = TypeVar("_R", DrillResult, Garbage, Hold, Pin)


class Catalogue:
    """One series of snapshots in a store; every method raises StoreUnavailable when the store does not answer."""

    def __init__(self, store: Store, series: str) -> None:
        self.store = store
        self.series = check_series(series)

    def numbers(self) -> list[int]:
        """Return the numbers of the series' snapshots, in order."""
        return [int(key.rpartition("/")[2]) for key in self.store.list(series_key(self.series, "index/"))]

    def read(self, number: int) -> Snapshot:
        """Return one snapshot; raises NotFound, RegistryDamaged, SnapshotDamaged or FormatTooNew."""
        key = self.index_key(number)
        try:
            data = self._read(key)
        except KeyMissing:
            known = ", ".join(snapshot_name(recent) for recent in self.numbers()[-5:]) or "none"
            raise NotFound(
                f"series {self.series} has no snapshot {snapshot_name(number)}",
                hint=f"name one of the newest snapshots: {known}",
            ) from None
        found = unseal(data, Snapshot, where=key, newest_format=FORMAT, packed=True)
        check_snapshot(found, where=key)
        return found

    def newest(self) -> Snapshot | None:
        """Return the newest snapshot; None if the series has no snapshot."""
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def snapshots(self) -> list[Snapshot]:
        """Return all snapshots, in order; makes one request for each."""
        return [self.read(number) for number in self.numbers()]

    def publish(self, snapshot: Snapshot, after: int) -> Snapshot:
        """Publish a snapshot's record under the next free number after ``after``, and return the numbered snapshot.

        From then on the series contains the whole snapshot.
        """
        number = after + 1
        while True:
            numbered = msgspec.structs.replace(snapshot, number=number)
            crash_point("snapshot.publish.before")
            try:
                self.store.create(self.index_key(number), seal(numbered, packed=True))
            except KeyExists:
                number += 1
                continue
            crash_point("snapshot.publish.after")
            return numbered

    def put_pack(self, name: str, content: bytes) -> None:
        """Store a pack under its name."""
        crash_point("snapshot.pack.before")
        self.store.create(self.pack_key(name), content)
        crash_point("snapshot.pack.after")

    def read_pack(self, pack: Pack) -> bytes:
        """Return a whole pack, unchecked; raises SnapshotDamaged when it is missing."""
        return self._stored(pack, self._read)

    def read_part(self, pack: Pack, start: int, length: int) -> bytes:
        """Return a part of a pack, unchecked; raises SnapshotDamaged when it is missing."""
        return self._stored(pack, lambda key: self.store.read_range(key, start, length))

    def pack_names(self) -> set[str]:
        """Return the names of all packs, referenced or not."""
        return {key.rpartition("/")[2] for key in self.store.list(series_key(self.series, "packs/"))}

    def drills(self, number: int) -> list[DrillResult]:
        """Return the result of each drill of a snapshot, oldest first."""
        prefix = series_key(self.series, "drills", padded(number)) + "/"
        found = (self._record(key, DrillResult) for key in self.store.list(prefix))
        return [drill for drill in found if drill is not None]

    def drilled(self) -> list[int]:
        """Return the numbers of all snapshots with a drill, in order; one request."""
        return sorted(int(name) for name in self.store.folders(series_key(self.series, "drills") + "/"))

    def is_verified(self, number: int) -> bool:
        """Whether the newest drill of a snapshot succeeded."""
        drills = self.drills(number)
        return bool(drills) and drills[-1].ok

    def note_drill(self, number: int, result: DrillResult) -> None:
        """Record the result of a drill; the ids of results sort chronologically."""
        with suppress(KeyExists):
            self.store.create(series_key(self.series, "drills", padded(number), result.id), seal(result))

    def pin_of(self, number: int) -> Pin | None:
        """Return the pin of a snapshot; None if it has no pin."""
        return self._record(self._pin_key(number), Pin)

    def pin(self, number: int, pin: Pin) -> None:
        """Keep a snapshot until its pin is removed; raises NotFound."""
        self.read(number)
        self.store.replace(self._pin_key(number), seal(pin))

    def unpin(self, number: int) -> None:
        """Remove the pin of a snapshot. The retention policy then decides again whether to keep the snapshot."""
        self.store.delete(self._pin_key(number))

    def holds(self, number: int) -> list[Hold]:
        """Return the holds of a snapshot."""
        prefix = series_key(self.series, "holds", padded(number)) + "/"
        found = (self._record(key, Hold) for key in self.store.list(prefix))
        return [hold for hold in found if hold is not None]

    def hold(self, number: int, hold: Hold) -> None:
        """Keep a snapshot for an operation; safe to repeat."""
        self.store.replace(self._hold_key(number, hold.owner), seal(hold))

    def release(self, number: int, owner: str) -> None:
        """Release the hold of the operation ``owner`` on a snapshot."""
        self.store.delete(self._hold_key(number, owner))

    def release_all(self, owners: Collection[str]) -> None:
        """Release every hold of these owners."""
        for key in list(self.store.list(series_key(self.series, "holds/"))):
            if key.rpartition("/")[2] in owners:
                self.store.delete(key)

    def marks(self) -> list[str]:
        """Return the keys of the marks in which prunes have recorded packs without references."""
        return list(self.store.list(series_key(self.series, "garbage/")))

    def read_mark(self, key: str) -> Garbage | None:
        """Return the mark of a prune; None if it no longer exists."""
        return self._record(key, Garbage)

    def index_key(self, number: int) -> str:
        """Return the key of a snapshot's record."""
        return series_key(self.series, "index", padded(number))

    def pack_key(self, name: str) -> str:
        """Return the key of a pack."""
        return series_key(self.series, "packs", name)

    def _pin_key(self, number: int) -> str:
        return series_key(self.series, "pins", padded(number))

    def _hold_key(self, number: int, owner: str) -> str:
        return series_key(self.series, "holds", padded(number), owner)

    def _read(self, key: str) -> bytes:
        try:
            return self.store.read(key)
        except RegistryDamaged as error:
            raise SnapshotDamaged(error.message, hint=error.hint) from None

    def _record(self, key: str, kind: type[_R]) -> _R | None:
        try:
            return unseal(self._read(key), kind, where=key, newest_format=FORMAT)
        except KeyMissing:
            return None

    def _stored(self, pack: Pack, read: Callable[[str], bytes]) -> bytes:
        key = self.pack_key(pack.name)
        try:
            return read(key)
        except KeyMissing:
            raise SnapshotDamaged(f"{key} is missing") from None


def list_series(store: Store) -> Iterator[str]:
    """Yield every series with at least one key in the store, in order; makes one request for each."""
    after = ""
    while key := next(iter(store.list(_SNAPSHOTS, after=after)), ""):
        first, second = key.removeprefix(_SNAPSHOTS).split("/")[:2]
        series = f"{first}/{second}"
        yield series
        # "0" is the character after "/": all keys of this series sort before it, all other keys after it.
        after = f"{series_root(series)[:-1]}0"
