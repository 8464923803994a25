"""Removes snapshots that no rule keeps, and packs without references; age alone is never a reason.

Records are removed before packs. A pack without a reference is first only marked, because a running capture may be
about to reference it. A later prune removes the pack if the mark is older than the grace period and the pack still has
no reference. A capture gives up before a grace period expires. A record that cannot be read stops a prune, because the
record's references are unknown.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from streamkeeper.errors import InvalidInput
from streamkeeper.model.records.snapshot import Garbage, Hold, Pin, padded, series_key, snapshot_name
from streamkeeper.snapshots.capture import LONGEST_S
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.retention import Candidate, Policy, RetentionDecision, decide_retention
from streamkeeper.snapshots.sealing import seal
from streamkeeper.system.crash_points import crash_point

GRACE_S = 24 * 3600.0
_RECORDS = ("drills", "pins", "holds")


class SweepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a prune of one series, with the reasons."""

    series: str
    """The series."""
    decisions: tuple[RetentionDecision, ...]
    """The retention decision on each snapshot."""
    packs: tuple[str, ...]
    """The packs to remove now."""
    marked: tuple[str, ...]
    """The packs that have no reference from now on, and may be removed after the grace period."""
    left: tuple[str, ...]
    """Keys of the records to remove because their snapshots no longer exist."""
    marks: dict[str, Garbage]
    """Key -> mark of an earlier prune."""
    referenced: frozenset[str]
    """Packs that any snapshot references before the prune."""
    freed: int = 0
    """Bytes of the packs to remove, where their sizes are known."""

    @property
    def dropped(self) -> tuple[int, ...]:
        """Numbers of the snapshots to remove."""
        return tuple(decision.number for decision in self.decisions if not decision.keep)

    @property
    def nothing(self) -> bool:
        """Whether the plan removes and marks nothing."""
        return not (self.dropped or self.packs or self.marked or self.left)


def check_grace(grace_s: float) -> float:
    """Return ``grace_s``, in seconds, if it is valid; else raise InvalidInput.

    A valid grace period is at least as long as a capture may take. 0 is valid too, for times in which no capture runs.
    """
    if grace_s != 0 and not LONGEST_S <= grace_s < float("inf"):
        what = "negative" if grace_s < 0 else "too short" if grace_s < LONGEST_S else "not a finite number"
        hint = f"at least {LONGEST_S:.0f} s, because a backup may take that long; 0 only while no snapshot is taken"
        raise InvalidInput(f"a grace period of {grace_s:g} s is {what}", hint=hint)
    return grace_s


def plan_sweep(catalogue: Catalogue, policy: Policy, *, now: datetime, grace_s: float = GRACE_S) -> SweepPlan:
    """Read a series and return the plan of its prune; raises SnapshotDamaged, FormatTooNew or StoreUnavailable.

    ``grace_s``: for how many seconds a pack must have been marked as unreferenced before it is removed. 0 removes it
    without a mark. Raises the error of ``check_grace``.
    """
    check_grace(grace_s)
    keys = list(catalogue.store.list(series_key(catalogue.series, "")))
    there = _by_kind(catalogue.series, keys)
    snapshots = [catalogue.read(int(key.rpartition("/")[2])) for key in there.get("index", ())]
    live = {snapshot.number for snapshot in snapshots}
    pinned, held, verified, left = _said_of(catalogue, there, live, now)
    decisions = decide_retention(
        [
            Candidate(
                number=snapshot.number,
                taken_at=datetime.fromisoformat(snapshot.taken_at).astimezone(UTC),
                verified=snapshot.number in verified,
                pinned=pinned.get(snapshot.number, ""),
                held_by=tuple(held.get(snapshot.number, ())),
            )
            for snapshot in snapshots
        ],
        policy,
    )
    kept = {decision.number for decision in decisions if decision.keep}
    referenced = {pack.name for snapshot in snapshots if snapshot.number in kept for pack in snapshot.packs}
    # The grace period of a pack that is still referenced by a removed snapshot starts now, regardless of earlier marks.
    until_now = {pack.name for snapshot in snapshots for pack in snapshot.packs}
    found = {key: catalogue.read_mark(key) for key in there.get("garbage", ())}
    marks = {key: mark for key, mark in found.items() if mark is not None}
    free = {key.rpartition("/")[2] for key in there.get("packs", ())} - referenced
    since = _since(marks)
    over = {name for name in free - until_now if name in since and since[name] <= now - timedelta(seconds=grace_s)}
    packs = free if grace_s == 0 else over
    sizes = {pack.name: pack.size for snapshot in snapshots for pack in snapshot.packs}
    return SweepPlan(
        series=catalogue.series,
        decisions=decisions,
        packs=tuple(sorted(packs)),
        marked=tuple(sorted(free - packs - (since.keys() - until_now))),
        left=tuple(left),
        marks=marks,
        referenced=frozenset(until_now),
        freed=sum(sizes.get(name, 0) for name in packs),
    )


def sweep(catalogue: Catalogue, plan: SweepPlan, *, now: datetime) -> None:
    """Carry out a plan. After an interrupted prune, a new plan can be made and carried out. Raises StoreUnavailable."""
    for number in plan.dropped:
        _delete(catalogue, catalogue.index_key(number))
    for number in plan.dropped:
        for kind in _RECORDS:
            prefix = series_key(catalogue.series, kind, padded(number))
            for key in [*catalogue.store.list(f"{prefix}/"), *([prefix] if kind == "pins" else [])]:
                _delete(catalogue, key)
    for key in plan.left:
        _delete(catalogue, key)
    marked = set(plan.marked)
    for key, mark in plan.marks.items():
        still = tuple(name for name in mark.packs if name not in plan.referenced and name not in plan.packs)
        if still != mark.packs:
            if still:
                _note(catalogue, Garbage(at=mark.at, packs=still))
            _delete(catalogue, key)
    if marked:
        _note(catalogue, Garbage(at=now.isoformat(timespec="milliseconds"), packs=tuple(sorted(marked))))
    for name in plan.packs:
        _delete(catalogue, catalogue.pack_key(name))


def _delete(catalogue: Catalogue, key: str) -> None:
    crash_point("sweep.delete.before")
    catalogue.store.delete(key)


def _note(catalogue: Catalogue, garbage: Garbage) -> None:
    crash_point("sweep.mark.before")
    catalogue.store.create(series_key(catalogue.series, "garbage", secrets.token_hex(8)), seal(garbage))


def _since(marks: dict[str, Garbage]) -> dict[str, datetime]:
    found: dict[str, datetime] = {}
    for mark in marks.values():
        marked_at = datetime.fromisoformat(mark.at)
        for name in mark.packs:
            found[name] = min(marked_at, found.get(name, marked_at))
    return found


def _by_kind(series: str, keys: list[str]) -> dict[str, list[str]]:
    root = series_key(series, "")
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(key.removeprefix(root).split("/")[0], []).append(key)
    return found


def _said_of(
    catalogue: Catalogue, there: dict[str, list[str]], live: set[int], now: datetime
) -> tuple[dict[int, str], dict[int, list[str]], set[int], list[str]]:
    """Return the pins, the holds and the verified numbers of existing snapshots, and the keys of records of missing
    snapshots.
    """
    root = series_key(catalogue.series, "")
    numbered = [
        (key, kind, int(key.removeprefix(root).split("/")[1])) for kind in _RECORDS for key in there.get(kind, ())
    ]
    left = [key for key, _, number in numbered if number not in live]
    pinned: dict[int, str] = {}
    held: dict[int, list[str]] = {}
    for number in sorted({number for _, kind, number in numbered if kind == "pins" and number in live}):
        pin: Pin | None = catalogue.pin_of(number)
        if pin is not None:
            pinned[number] = pin.reason or "no reason given"
    for number in sorted({number for _, kind, number in numbered if kind == "holds" and number in live}):
        for hold in catalogue.holds(number):
            if not is_over(hold, now):
                held.setdefault(number, []).append(hold.owner)
    drilled = {number for _, kind, number in numbered if kind == "drills" and number in live}
    return pinned, held, {number for number in drilled if catalogue.is_verified(number)}, left


def is_over(hold: Hold, now: datetime) -> bool:
    """Whether a hold has expired."""
    return bool(hold.until) and datetime.fromisoformat(hold.until) < now


def tell(plan: SweepPlan) -> Iterator[str]:
    """Yield the plan as text, one line for each snapshot, pack and record."""
    for decision in plan.decisions:
        verb = "keep" if decision.keep else "drop"
        yield f"{verb} {plan.series} {snapshot_name(decision.number)}: {'; '.join(decision.reasons)}"
    for name in plan.packs:
        yield f"delete {plan.series} pack {name[:16]}: no snapshot references it, and its grace period is over"
    for name in plan.marked:
        yield f"mark {plan.series} pack {name[:16]}: no snapshot references it from now on"
    for key in plan.left:
        yield f"delete {key}: its snapshot no longer exists"
