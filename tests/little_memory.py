"""Provides a limit on the memory and time of a piece of code, for tests with files and records that claim to be
huge.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

MIB = 1 << 20


@contextmanager
def little(mib: float = 20) -> Iterator[None]:
    """Check that the block allocates less than ``mib`` MiB at its peak and runs for less than 20 s."""
    tracemalloc.start()
    begun = time.monotonic()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < mib * MIB
        assert time.monotonic() - begun < 20
    finally:
        tracemalloc.stop()
