"""A bound on what a piece of code may hold and take: for files and records that claim to be huge."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

MIB = 1 << 20


@contextmanager
def little(mib: float = 20) -> Iterator[None]:
    """Within it no more than this is ever held, and it does not take long."""
    tracemalloc.start()
    begun = time.monotonic()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < mib * MIB
        assert time.monotonic() - begun < 20
    finally:
        tracemalloc.stop()
