"""Measures the driver's own work: total times per name, over all batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from streamkeeper.system import clock

OWN = ("gate", "status", "progress")
"""The names of the driver's own work. ``write`` is not among them because it is the sink's work, and ``claim`` is not
because it happens once per query.

A name with a dot is a part of another one: ``gate.store`` is a part of ``gate``. ``gate.cpu`` is the CPU time of the
gate's thread. The rest of ``gate`` was spent waiting: for the disk, the store, the JVM or a processor.
"""


class Timings:
    """Sums of the milliseconds spent on each named kind of work; threads may share the object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, float] = {"batches": 0.0}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the duration of the ``with`` block to the sum of ``name``. For a name in ``OWN``, also add the CPU time
        of the thread to the sum of ``<name>.cpu``.
        """
        began, computed = clock.monotonic(), time.thread_time()
        try:
            yield
        finally:
            self.add(name, (clock.monotonic() - began) * 1000)
            if name in OWN:
                self.add(f"{name}.cpu", (time.thread_time() - computed) * 1000)

    def add(self, name: str, amount: float) -> None:
        """Add ``amount`` to the sum of ``name``; under the name ``batches`` the amount is a count."""
        with self._lock:
            self._sums[name] = self._sums.get(name, 0.0) + amount

    def sums(self) -> dict[str, float]:
        """Return a copy of the sums, rounded to a microsecond; ``own_per_batch`` is the driver's own work per batch."""
        with self._lock:
            sums = {name: round(value, 3) for name, value in self._sums.items()}
        if sums["batches"]:
            sums["own_per_batch"] = round(sum(sums.get(name, 0.0) for name in OWN) / sums["batches"], 3)
        return sums
