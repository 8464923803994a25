"""Computes the memory and cores that a driver's container requests, from its release's conf."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_MIB = {"": 1 / 1024**2, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2, "p": 1024**3}
_HEAP_MIB, _BESIDE_MIB = 1024, 1024
"""The heap if a release sets none, and the memory outside the heap, in MiB. The latter is for the JVM itself, the
supervisor, the driver's Python, two tasks and two partitions of state.
"""
_FACTOR = 0.25
_LEAST_OVERHEAD_MIB, _LEAST_FACTOR = 384, 0.1
"""Spark's own defaults for the memory overhead of a driver; with less, the JVM alone does not fit."""
_CORES = 2
_WORKER_MIB = 128
"""Estimated memory of each further Python worker; one worker runs per task."""
_STORE_MIB = 24
"""Estimated memory of each further partition of state: a block cache of 8 MiB, and write buffers. They may grow to 128
MiB each unless ``boundedMemoryUsage`` limits all of them together.
"""
_PARTITIONS = 2
_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb."
_BOUND_MIB = 500
_OWN_THREADS = re.compile(r"local\[(\d+)")


def container_mib(conf: Mapping[str, str], *, own_tasks: bool = True) -> int:
    """Return the memory that a driver's container requests, in MiB: Spark's heap and everything outside the heap.

    If the release sets ``spark.driver.memoryOverhead``, that value replaces the computed memory outside the heap.
    Off-heap memory and the limit of all Python workers have confs of their own, and are added in both cases.

    ``own_tasks``: whether tasks run in the driver.
    """
    heap = _heap_mib(conf)
    overhead = _given_overhead_mib(conf)
    if overhead is not None:
        return heap + overhead + _extra_mib(conf)
    beside = max(_BESIDE_MIB, int(heap * _factor(conf, _FACTOR)))
    return heap + beside + _extra_mib(conf) + (_of_tasks_mib(conf) if own_tasks else 0)


def least_mib(conf: Mapping[str, str]) -> int:
    """Return the least memory, in MiB, that a container needs for Spark's own JVM."""
    heap, declared = _heap_mib(conf), _given_overhead_mib(conf)
    overhead = max(_LEAST_OVERHEAD_MIB, int(heap * _factor(conf, _LEAST_FACTOR))) if declared is None else declared
    return heap + overhead + _extra_mib(conf)


def container_cores(conf: Mapping[str, str]) -> int:
    """Return how many of a node's cores a driver's container requests: ``spark.driver.cores``, or 2 without a valid
    setting.
    """
    asked = conf.get("spark.driver.cores", "").strip()
    return int(asked) if asked.isdecimal() and int(asked) else _CORES


def _heap_mib(conf: Mapping[str, str]) -> int:
    found = size_mib(conf.get("spark.driver.memory", ""))
    return _HEAP_MIB if found is None else int(found)


def _given_overhead_mib(conf: Mapping[str, str]) -> int | None:
    """Return the memory overhead that the release sets, in MiB; None if it sets none. A number without a unit is in
    MiB, as in Spark.
    """
    text = conf.get("spark.driver.memoryOverhead", "").strip()
    found = float(text) if text.isdecimal() else size_mib(text)
    return None if found is None else int(found)


def _factor(conf: Mapping[str, str], otherwise: float) -> float:
    try:
        found = float(conf.get("spark.driver.memoryOverheadFactor", ""))
    except ValueError:
        return otherwise
    return found if math.isfinite(found) and found > 0 else otherwise


def _extra_mib(conf: Mapping[str, str]) -> int:
    """Return, in MiB, the memory that has confs of its own: off-heap memory, and the limit of all Python workers."""
    off_heap = (
        size_mib(conf.get("spark.memory.offHeap.size", "")) if _is_on(conf, "spark.memory.offHeap.enabled") else 0
    )
    text = conf.get("spark.executor.pyspark.memory", "").strip()
    python = float(text) if text.isdecimal() else size_mib(text)
    return int((off_heap or 0) + (python or 0))


def _of_tasks_mib(conf: Mapping[str, str]) -> int:
    """Return the memory of Python workers and RocksDB, in MiB, beyond the part that every container includes."""
    threads = _OWN_THREADS.match(conf.get("spark.master", ""))
    tasks = int(threads[1]) if threads else container_cores(conf)
    limited = bool(conf.get("spark.executor.pyspark.memory", "").strip())
    workers = 0 if limited else max(0, tasks - _CORES) * _WORKER_MIB
    if _is_on(conf, f"{_ROCKSDB}boundedMemoryUsage"):
        return workers + _number(conf, f"{_ROCKSDB}maxMemoryUsageMB", _BOUND_MIB)
    stores = max(0, _number(conf, "spark.sql.shuffle.partitions", _PARTITIONS) - _PARTITIONS)
    buffers = _number(conf, f"{_ROCKSDB}writeBufferSizeMB", 0) * max(
        1, _number(conf, f"{_ROCKSDB}maxWriteBufferNumber", 2)
    )
    each = max(_STORE_MIB, _number(conf, f"{_ROCKSDB}blockCacheSizeMB", 8) + buffers)
    return workers + stores * each


def size_mib(text: str) -> float | None:
    """Convert a size in Spark's form, such as ``512m`` or ``2g``, to MiB; a plain number is in bytes. Return None if it
    is invalid.
    """
    found = re.fullmatch(r"(\d+)\s*([kmgtp]?)", text.strip().lower().removesuffix("b").strip())
    return int(found[1]) * _MIB[found[2]] if found else None


def _is_on(conf: Mapping[str, str], key: str) -> bool:
    return conf.get(key, "").strip().lower() == "true"


def _number(conf: Mapping[str, str], key: str, otherwise: int) -> int:
    text = conf.get(key, "").strip()
    return int(text) if text.isdecimal() else otherwise
