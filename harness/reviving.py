"""Restarts a node's own processes after they die, as the monitoring of a real cluster does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_LOOK_S = 2.0


@contextmanager
def revived(revive: Callable[[], None]) -> Iterator[None]:
    """Call ``revive`` every two seconds while the body runs; ``revive`` restarts the processes that have terminated and
    leaves all others alone.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_S):
            # Its server may not have begun, or be ending.
            with suppress(KeyError):
                revive()

    watching = threading.Thread(target=watch, name="node watch", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
