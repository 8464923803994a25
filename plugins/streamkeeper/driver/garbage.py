"""Releases in time the JVM objects that only Python keeps alive.

Each batch reaches Python as a DataFrame with a reference cycle, which only a full garbage collection of Python removes.
With pyspark loaded, Python makes such a collection only after hundreds of batches, when the number of objects has grown
by a quarter. Until then the JVM keeps each batch's plan, its Hadoop configuration and its broadcast, about 200 KiB a
batch (``bench.memory``).
"""

from __future__ import annotations

import gc
import threading

from streamkeeper.system import clock

EVERY_S = 10.0


def collect_regularly(every_s: float = EVERY_S) -> None:
    """Start a thread that collects Python's garbage regularly until the process exits.

    Releasing a Java object makes a request to the JVM, so a separate thread does it. After the first collection, the
    existing objects, mostly modules, are frozen: later collections do not visit them.
    """
    threading.Thread(target=_collect, args=(every_s,), name="garbage", daemon=True).start()


def _collect(every_s: float) -> None:
    clock.sleep(every_s)
    gc.collect()
    gc.freeze()
    while True:
        clock.sleep(every_s)
        gc.collect()
