"""Restores every snapshot of a world after its schedule has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.simulation.input import told
from harness.simulation.scheduler import Violation
from harness.simulation.state import StateLost, StateStore
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.snapshots.catalogue import Catalogue, list_series
from streamkeeper.snapshots.restore import restore
from streamkeeper.snapshots.verify import verify

if TYPE_CHECKING:
    from harness.simulation.world import World


def check_snapshots(world: World) -> None:
    """Check that every snapshot of every series can be restored; raises Violation."""
    store = world.store_of(None)
    for series in list_series(store):
        catalogue = Catalogue(store, series)
        if damaged := verify(catalogue).damaged:
            raise Violation(f"{series} has damaged objects: {damaged}")
        for snapshot in catalogue.snapshots():
            target = world.tree_at(f"{world.settings.checkpoints}-restored/{series}/{snapshot.name}")
            restored = restore(catalogue, snapshot, target)
            if (batch := last_committed(target.fresh())) != snapshot.batch:
                raise Violation(f"{snapshot.name} of batch {snapshot.batch} restores batch {batch}: {restored}")
            _check_state(world, snapshot.name, target, snapshot.batch)


def _check_state(world: World, snapshot: str, restored: Tree, batch: int) -> None:
    """Check that the state in a restored snapshot contains the rows up to its batch; raises Violation."""
    if not world.stateful or batch < 0:
        return
    try:
        held = StateStore(world, restored).load(batch + 1)
    except StateLost as error:
        raise Violation(f"the state in {snapshot} cannot be loaded: {error}") from error
    if held != tuple(rows := world.rows_to(restored.fresh(), batch)):
        raise Violation(f"the state in {snapshot} has {told(held)}, and its batches have {told(rows)}")
