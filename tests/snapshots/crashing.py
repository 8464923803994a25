"""A process that captures, restores or prunes and exits abruptly before its n-th call of the store.

``python -m tests.snapshots.crashing <store> <checkpoint> capture|restore|prune <n> <target>``; 0 is never.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.fault_store import AtCall, FaultStore
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.snapshots.capture import capture
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import restore
from streamkeeper.snapshots.retention import Policy
from streamkeeper.snapshots.sweep import GRACE_S, plan_sweep, sweep
from streamkeeper.stores.local import LocalStore
from tests.snapshots.series import SERIES

POLICY = Policy(keep_last=2, hourly=0, daily=0, weekly=0, monthly=0)
DEAD = 137


def main() -> None:
    """Run the requested command."""
    where, checkpoint, what, nth, target = sys.argv[1:]
    store = FaultStore(LocalStore(where), AtCall(int(nth), lambda: os._exit(DEAD)))
    series = Catalogue(store, SERIES)
    match what:
        case "capture":
            capture(LocalTree(Path(checkpoint)), series)
        case "restore":
            newest = series.newest()
            assert newest is not None
            restore(series, newest, LocalTree(Path(target)))
        case "prune":
            prune(series)


def prune(series: Catalogue, grace_periods: int = 2) -> None:
    """Prune once, as of a time that lies this many grace periods in the future."""
    now = datetime.now(UTC) + timedelta(seconds=GRACE_S * grace_periods)
    sweep(series, plan_sweep(series, POLICY, now=now), now=now)


if __name__ == "__main__":
    main()
