"""Backups: a snapshot of a checkpoint with new commits since the last one, and how late a backup is."""

from __future__ import annotations

from datetime import datetime

import msgspec

from streamkeeper.checkpoints.layout import numbered
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, NotFound
from streamkeeper.model.records.snapshot import Hold, Snapshot
from streamkeeper.model.watch.fleet_index import SnapshotFacts
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.targets import Target
from streamkeeper.snapshots.anchor import find_anchor
from streamkeeper.snapshots.capture import Captured, Show, capture
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.stores.contract import Store
from streamkeeper.system import clock


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """How far the newest snapshot of a series is behind its checkpoint."""

    series: str
    """The series of the snapshots."""
    behind: int | None
    """Batches committed since the snapshot; None without a snapshot."""
    late_s: float
    """Age in seconds of the oldest of these batches; 0 without new commits."""
    snapshot: str = ""
    """Name of the newest snapshot; empty without one."""

    def exceeds(self, objective_s: float) -> str:
        """Return one sentence if the backup is later than the objective allows, else an empty string."""
        if self.late_s <= objective_s:
            return ""
        what = f"{self.snapshot} is {self.behind} batches behind" if self.snapshot else "there is no snapshot"
        oldest = f"the oldest batch without a snapshot is {self.late_s:.0f} s old"
        return f"{self.series}: {what}; {oldest} (limit: {objective_s:.0f} s)"


def back_up(
    store: Store,
    target: Target,
    *,
    batch: int | None = None,
    pending: bool = True,
    hold: Hold | None = None,
    show: Show | None = None,
) -> Captured:
    """Take a snapshot, unless the newest one is up to date.

    ``store``: the store of the snapshots; ``target``: the checkpoint; ``batch``: by default the last committed one;
    ``pending``: whether to include the plan of the open batch after ``batch``; ``hold``: protects the snapshot for an
    operation; ``show``: called with the progress.

    Raises the errors of ``capture``, and CheckpointDamaged for a deployed query whose directory is missing or emptied.
    """
    catalogue = Catalogue(store, target.series)
    try:
        captured = capture(target.open(), catalogue, batch=batch, origin=target.origin, show=show, pending=pending)
    except NotFound as error:
        if batch is None:
            _must_be_new(target, catalogue.newest(), error)
        raise
    if hold is not None:
        catalogue.hold(captured.snapshot.number, hold)
    return captured


def lateness_of(installation: Installation, target: Target, *, now: datetime | None = None) -> Lateness | None:
    """Return how late a deployed query's backup is; None before the query's first commit.

    Raises CheckpointDamaged or CheckpointChanged if the checkpoint cannot be read.
    """
    return find_lateness(target, Catalogue(installation.snapshots, target.series).newest(), now=now)


def find_lateness(target: Target, newest: Snapshot | SnapshotFacts | None, *, now: datetime | None) -> Lateness | None:
    """Return the same as ``lateness_of``, given the newest snapshot, so that only the checkpoint is read."""
    tree = target.open()
    try:
        anchor = find_anchor(tree)
    except NotFound as error:
        _must_be_new(target, newest, error)
        return None
    same = newest is not None and (newest.query_id, newest.checkpoint) == (anchor.query_id, tree.url)
    first_missing = newest.batch + 1 if newest is not None and same else 0
    behind = anchor.batch + 1 - first_missing
    late_s = 0.0
    if behind > 0:
        moment = (now or clock.now()).timestamp()
        late_s = max(0.0, moment - _committed_at(tree, first_missing))
    return Lateness(
        series=target.series,
        behind=behind if newest is not None else None,
        late_s=late_s,
        snapshot=newest.name if newest is not None else "",
    )


def hold_for(owner: str, reason: str) -> Hold:
    """Return a hold that lasts until its owner releases it."""
    return Hold(owner=owner, reason=reason, at=clock.now().isoformat(timespec="seconds"))


def _must_be_new(target: Target, newest: Snapshot | SnapshotFacts | None, error: NotFound) -> None:
    """Raise CheckpointDamaged for a checkpoint that has a snapshot but no commit, because it was emptied."""
    if target.job and newest is not None and newest.version == target.origin.version:
        raise CheckpointDamaged(
            f"checkpoint {newest.version} of {target.series} was emptied: snapshot {newest.name} contains batch"
            f" {newest.batch} of this checkpoint, but {error.message}",
            hint=f"run `streamkeeper snapshot restore {target.series}`",
        ) from None


def _committed_at(tree: Tree, first: int) -> float:
    """Return the commit time of the oldest existing batch from ``first`` on, seconds since 1970."""
    for batch in sorted(number for number in numbered(tree, "commits") if number >= first):
        try:
            return tree.stamp(f"commits/{batch}").modified / 1e9
        except FileNotFoundError:
            continue
    raise CheckpointChanged(f"Spark deletes the commits of {tree.url} faster than they can be read")
