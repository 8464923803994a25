"""Tests how much memory and how many cores a driver's container requests."""

from __future__ import annotations

import pytest

from streamkeeper.driver.session import session_conf
from streamkeeper.model.settings.release_conf import check_release_conf
from streamkeeper.runners.room import container_cores, container_mib, least_mib

ROCKSDB = "spark.sql.streaming.stateStore.rocksdb."
MEMORY, OVERHEAD = "spark.driver.memory", "spark.driver.memoryOverhead"
OFF_HEAP = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "512m"}


@pytest.mark.parametrize(
    ("memory", "mib"), [("", 2048), ("512m", 1536), ("2g", 3072), ("8GB", 10240), ("1t", 1310720), ("much", 2048)]
)
def test_a_container_has_memory_for_processes_outside_the_jvm_heap(memory: str, mib: int) -> None:
    """A container's memory is the JVM heap plus 1 GiB or a quarter of the heap, for Python, its workers and the JVM's
    memory outside the heap.
    """
    assert container_mib({MEMORY: memory}) == mib


@pytest.mark.parametrize(
    ("conf", "more"),
    [
        ({OVERHEAD: "3g"}, 3 * 1024 - 1024),
        ({OVERHEAD: "300"}, 300 - 1024),
        ({OVERHEAD: "300", **OFF_HEAP}, 300 - 1024 + 512),
        (OFF_HEAP, 512),
        ({**OFF_HEAP, "spark.memory.offHeap.enabled": "false"}, 0),
        ({"spark.driver.memoryOverheadFactor": "0.75"}, 512),
        ({"spark.driver.memoryOverheadFactor": "inf"}, 0),
        ({"spark.driver.memoryOverheadFactor": "nan"}, 0),
        ({"spark.driver.cores": "8"}, 6 * 128),
        ({"spark.master": "local[6]"}, 4 * 128),
        ({"spark.driver.cores": "8", "spark.executor.pyspark.memory": "2g"}, 2048),
        ({"spark.sql.shuffle.partitions": "34"}, 32 * 24),
        ({"spark.sql.shuffle.partitions": "4", f"{ROCKSDB}writeBufferSizeMB": "64"}, 2 * (8 + 128)),
        ({"spark.sql.shuffle.partitions": "200", f"{ROCKSDB}boundedMemoryUsage": "true"}, 500),
        ({f"{ROCKSDB}boundedMemoryUsage": "true", f"{ROCKSDB}maxMemoryUsageMB": "900"}, 900),
    ],
)
def test_a_memory_overhead_set_by_the_release_is_used(conf: dict[str, str], more: int) -> None:
    """A memory overhead that the release sets is used as given; otherwise off-heap memory, Python workers and RocksDB
    are added.
    """
    heap = {MEMORY: "2g"}
    assert container_mib({**heap, **conf}) == container_mib(heap) + more
    check_release_conf(conf)


def test_tasks_on_executors_add_no_memory_to_the_driver() -> None:
    """If the tasks run on executors, Python workers and state add no memory to the driver's container."""
    conf = {"spark.sql.shuffle.partitions": "200", "spark.driver.cores": "8"}
    assert container_mib(conf, own_tasks=False) == container_mib({})


def test_the_smallest_container_for_a_jvm_includes_the_spark_overhead() -> None:
    """The smallest container for a JVM has Spark's own overhead: a tenth of the heap, at least 384 MiB, or the
    release's setting.
    """
    assert [least_mib({MEMORY: memory}) for memory in ("1g", "8g")] == [1408, 9011]
    assert least_mib({MEMORY: "1g", OVERHEAD: "100m", **OFF_HEAP}) == 1636


@pytest.mark.parametrize(("cores", "asked"), [("", 2), ("4", 4), ("0", 2), ("many", 2), ("8", 8)])
def test_a_container_has_the_cores_that_a_release_asks_for(cores: str, asked: int, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A container has the cores that the release requests, or two without a valid number, and as many tasks run in
    parallel unless a Spark master is set.
    """
    conf = {"spark.driver.cores": cores}
    assert container_cores(conf) == asked
    assert session_conf(conf, tmp_path, "job")["spark.master"] == f"local[{asked}]"
    assert session_conf({**conf, "spark.master": "local[3]"}, tmp_path, "job")["spark.master"] == "local[3]"
    assert session_conf(conf, tmp_path, "job", master="spark://m:7077")["spark.master"] == "spark://m:7077"
