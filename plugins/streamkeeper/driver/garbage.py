"""Letting go, in time, of what Python alone keeps alive in the JVM.

Each batch comes to Python as a DataFrame, which refers to itself and so goes only with a full collection of Python's.
Python makes one when a quarter more objects are there than it knows: with pyspark loaded, after hundreds of batches.
Until then the JVM keeps each batch's plan, its Hadoop configuration and its broadcast, some 200 KiB a batch
(``bench.memory``).
"""

from __future__ import annotations

import gc
import threading
import time

EVERY_S = 10.0


def collect_regularly(every_s: float = EVERY_S) -> None:
    """Collect until the process ends, from a thread of its own: letting go of a Java object asks the JVM.

    What is there at the first time is set aside after it: mostly modules, which each further one would go through.
    """
    threading.Thread(target=_collect, args=(every_s,), name="garbage", daemon=True).start()


def _collect(every_s: float) -> None:
    time.sleep(every_s)
    gc.collect()
    gc.freeze()
    while True:
        time.sleep(every_s)
        gc.collect()
