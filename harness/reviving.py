"""A node's own process that dies is started again, as a cluster's own watch does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_LOOK_S = 2.0


@contextmanager
def revived(revive: Callable[[], None]) -> Iterator[None]:
    """``revive`` starts what has ended and nothing else; it is called every two seconds while the body runs."""
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
