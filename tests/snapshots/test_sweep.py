"""Tests pruning snapshots: what is removed, what is kept, and what a concurrent capture can rely on."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.fault_store import FaultStore
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import InvalidInput, SnapshotDamaged
from streamkeeper.model.records.snapshot import DrillResult, Garbage, Hold, Pin, padded, series_key
from streamkeeper.snapshots.capture import capture
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import restore
from streamkeeper.snapshots.retention import Policy
from streamkeeper.snapshots.sealing import seal
from streamkeeper.snapshots.sweep import GRACE_S, SweepPlan, plan_sweep, sweep, tell
from streamkeeper.snapshots.verify import verify
from tests.contracts.memory_store import MemoryStore
from tests.snapshots.series import SERIES, a_checkpoint, catalogue, files_below, salt_state, wanted

NEWEST_ONLY = Policy(keep_last=1, hourly=0, daily=0, weekly=0, monthly=0)
NOW = datetime.now(UTC)
LATER = NOW + timedelta(seconds=GRACE_S + 60)


def _grow(root: Path, store: MemoryStore, snapshots: int) -> None:
    """Create a checkpoint with a snapshot of every batch, of which each has new state."""
    live = a_checkpoint(root, "hdfs", batches=1)
    for batch in itertools.count(1):
        capture(LocalTree(root), catalogue(store))
        if batch == snapshots:
            return
        live.plan(batch)
        live.commit(batch, snapshot=True)
        salt_state(root)


def _prune(
    series: Catalogue, policy: Policy = NEWEST_ONLY, *, now: datetime = NOW, grace_s: float = GRACE_S
) -> SweepPlan:
    plan = plan_sweep(series, policy, now=now, grace_s=grace_s)
    sweep(series, plan, now=now)
    return plan


def _pack_keys(store: MemoryStore) -> list[str]:
    return [key for key in store.values if "/packs/" in key]


def test_snapshots_go_at_once_and_packs_after_their_grace_period(tmp_path: Path) -> None:
    """A prune removes snapshots at once and their packs only after the grace period; the kept snapshot stays intact."""
    store = MemoryStore()
    series = catalogue(store)
    _grow(tmp_path / "live", store, 5)
    packs = len(_pack_keys(store))
    first = _prune(series)
    assert first.dropped == (1, 2, 3, 4)
    assert series.numbers() == [5]
    assert len(_pack_keys(store)) == packs
    assert _prune(series).nothing
    second = _prune(series, now=LATER)
    assert set(second.packs) == set(first.marked)
    assert len(_pack_keys(store)) == len(series.read(5).packs)
    assert not [key for key in store.values if "/garbage/" in key]
    assert verify(series).damaged == ()
    restore(series, series.read(5), LocalTree(tmp_path / "back"))
    assert files_below(tmp_path / "back") == wanted(tmp_path / "live", 4)


def test_no_pack_goes_before_its_whole_grace_period(tmp_path: Path) -> None:
    """The grace period of a pack starts with the prune that drops its last snapshot, even if an older mark names the
    pack.
    """
    store = MemoryStore()
    series = catalogue(store)
    _grow(tmp_path / "live", store, 5)
    used = {pack.name for number in series.numbers() for pack in series.read(number).packs}
    old = Garbage(at=(NOW - timedelta(days=9)).isoformat(), packs=tuple(sorted(used)))
    store.create(series_key(SERIES, "garbage", "0a"), seal(old))
    first = _prune(series)
    assert first.marked
    assert first.packs == ()
    assert _prune(series, now=NOW + timedelta(seconds=GRACE_S - 60)).packs == ()
    assert _prune(series, now=LATER).packs == first.marked


def test_a_dry_run_prints_the_exact_list_and_changes_nothing(tmp_path: Path) -> None:
    """A dry run prints exactly the list of the later prune and changes nothing."""
    store = MemoryStore()
    _grow(tmp_path / "live", store, 3)
    before = dict(store.values)
    lines = list(tell(plan_sweep(catalogue(store), NEWEST_ONLY, now=NOW)))
    assert store.values == before
    assert [line.split(":")[0] for line in lines[:3]] == [
        "drop sales/totals s0001",
        "drop sales/totals s0002",
        "keep sales/totals s0003",
    ]
    assert all(line.partition(": ")[2] for line in lines)
    done = _prune(catalogue(store))
    assert list(tell(done)) == lines


def test_a_prune_keeps_pinned_held_and_newest_verified_snapshots(tmp_path: Path) -> None:
    """A prune keeps pinned and held snapshots and the newest verified one, and removes them once they are unpinned or
    released; an expired hold keeps nothing.
    """
    store = MemoryStore()
    series = catalogue(store)
    _grow(tmp_path / "live", store, 6)
    series.pin(1, Pin(reason="audit", by="ann", at=NOW.isoformat()))
    series.hold(2, Hold(owner="deploy-9", reason="the way back", at=NOW.isoformat()))
    series.hold(3, Hold(owner="deploy-8", reason="over", at=NOW.isoformat(), until=(NOW - timedelta(1)).isoformat()))
    series.note_drill(4, DrillResult(id="1", ok=True, message="ran"))
    series.note_drill(5, DrillResult(id="1", ok=True, message="ran"))
    series.note_drill(5, DrillResult(id="2", ok=False, message="refused"))
    _prune(series)
    assert series.numbers() == [1, 2, 4, 6]
    series.unpin(1)
    series.release(2, "deploy-9")
    _prune(series)
    assert series.numbers() == [4, 6]
    assert not [key for key in store.values if "/pins/" in key or "/holds/" in key]


def test_an_unreadable_record_stops_a_prune_before_anything_is_removed(tmp_path: Path) -> None:
    """A prune stops at an unreadable record before it removes anything."""
    store = MemoryStore()
    series = catalogue(store)
    _grow(tmp_path / "live", store, 3)
    store.values[series.index_key(2)] = b"?" + store.values[series.index_key(2)][1:]
    before = dict(store.values)
    with pytest.raises(SnapshotDamaged, match="0000000002"):
        _prune(series)
    assert store.values == before


def test_a_damaged_record_of_a_missing_snapshot_is_removed_and_stops_no_prune(tmp_path: Path) -> None:
    """A damaged pin, hold or drill result of a missing snapshot is removed without being read, and does not stop the
    prune.
    """
    store = MemoryStore()
    series = catalogue(store)
    _grow(tmp_path / "live", store, 2)
    keys = [series_key(SERIES, "pins", padded(9))]
    keys += [series_key(SERIES, kind, padded(9), "1") for kind in ("holds", "drills")]
    for key in keys:
        store.create(key, b"?")
    plan = _prune(series)
    assert (plan.dropped, sorted(plan.left)) == ((1,), sorted(keys))
    assert [key for key in keys if key in store.values] == []


def test_a_pin_set_after_the_plan_is_removed_with_its_snapshot(tmp_path: Path) -> None:
    """A pin that is set after a prune was planned is removed with its snapshot, so that the next prune has nothing left
    to do.
    """
    store = MemoryStore()
    series = catalogue(store)
    _grow(tmp_path / "live", store, 2)
    plan = plan_sweep(series, NEWEST_ONLY, now=NOW)
    series.pin(1, Pin(reason="audit", by="ann", at=NOW.isoformat()))
    sweep(series, plan, now=NOW)
    assert series.numbers() == [2]
    assert [key for key in store.values if "/pins/" in key] == []
    assert plan_sweep(series, NEWEST_ONLY, now=NOW).nothing


def test_a_pack_that_is_referenced_again_gets_a_new_grace_period(tmp_path: Path) -> None:
    """A pack that was marked as garbage and then used by a new snapshot gets a new grace period when that snapshot is
    dropped.
    """
    store = MemoryStore()
    series = catalogue(store)
    live = a_checkpoint(tmp_path / "live", "hdfs")
    # A capture is under way: its pack is there, its record is not.

    def prune(call: str, key: str) -> None:
        if call == "create" and "/index/" in key:
            assert _prune(series).marked

    capture(LocalTree(tmp_path / "live"), catalogue(FaultStore(store, prune)))
    live.plan(8)
    live.commit(8, snapshot=True)
    salt_state(tmp_path / "live")
    capture(LocalTree(tmp_path / "live"), series)
    dropping = _prune(series, now=LATER)
    assert dropping.dropped == (1,)
    assert dropping.packs == ()
    assert verify(series).damaged == ()
    assert not [key for key in store.values if "/garbage/" in key]


def _capture_while_pruning(tmp_path: Path, *, grace_s: float) -> MemoryStore:
    """Run a prune between a capture's packs and its record that drops the snapshot which the capture builds on."""
    store = MemoryStore()
    series = catalogue(store)
    _grow(tmp_path / "live", store, 2)

    def prune(call: str, key: str) -> None:
        if call == "create" and "/index/" in key:
            _prune(series, grace_s=grace_s)

    live_batches = a_checkpoint(tmp_path / "again", "hdfs", batches=1)
    live_batches.root = tmp_path / "live"
    live_batches.plan(2)
    live_batches.commit(2, snapshot=True)
    salt_state(tmp_path / "live")
    capture(LocalTree(tmp_path / "live"), catalogue(FaultStore(store, prune)))
    return store


def test_a_capture_that_runs_during_a_prune_loses_nothing(tmp_path: Path) -> None:
    """A snapshot that is captured during a prune stays intact."""
    store = _capture_while_pruning(tmp_path, grace_s=GRACE_S)
    _prune(catalogue(store), now=LATER)
    assert verify(catalogue(store)).damaged == ()


def test_without_a_grace_period_such_a_capture_is_damaged(tmp_path: Path) -> None:
    """Negative control: without a grace period, a snapshot that is captured during a prune is damaged."""
    store = _capture_while_pruning(tmp_path, grace_s=0)
    assert verify(catalogue(store)).damaged


def test_a_grace_period_shorter_than_a_capture_may_take_is_refused(tmp_path: Path) -> None:
    """A grace period that is shorter than a capture may take is refused."""
    with pytest.raises(InvalidInput, match="too short"):
        plan_sweep(catalogue(MemoryStore()), NEWEST_ONLY, now=NOW, grace_s=60)
