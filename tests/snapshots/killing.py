"""A process that captures and prunes, and kills itself before one step of a write to its local store.

``python -m tests.snapshots.killing <store> <checkpoint> <place>``; ``place``: from 0, the first step, to below 1. A
rehearsal on a copy of the store counts the steps, so every run is killed. It prints the name of the step.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.snapshots.capture import capture
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.stores import local
from tests.snapshots.crashing import prune
from tests.snapshots.series import SERIES

STEPS = frozenset({"write", "flush", "fsync", "link", "rename", "unlink", "mkdir"})
"""The functions that a local store calls to write; before ``write`` the file exists and is empty."""


class Steps:
    """Counts the steps of this process, and kills it before the ``nth``; 0 is never."""

    def __init__(self, nth: int = 0) -> None:
        self.nth, self.count = nth, 0
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        """Count a step; Python calls this for each function call."""
        if event != "c_call" or frame.f_code.co_filename != local.__file__ or called.__name__ not in STEPS:
            return
        self.count += 1
        if self.count == self.nth:
            os.write(sys.stdout.fileno(), called.__name__.encode())
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Count the steps on a copy of the store, and repeat them on the store up to the place."""
    where, checkpoint, place = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(where, Path(scratch) / "store")
        rehearsal = Steps()
        capture_and_prune(copy, checkpoint)
    Steps(1 + int(float(place) * rehearsal.count))
    capture_and_prune(where, checkpoint)


def capture_and_prune(where: str | Path, checkpoint: str) -> None:
    """Capture as a backup does, and prune everything unneeded without waiting for the grace period."""
    series = Catalogue(local.LocalStore(where), SERIES)
    capture(LocalTree(Path(checkpoint)), series)
    prune(series)


if __name__ == "__main__":
    main()
