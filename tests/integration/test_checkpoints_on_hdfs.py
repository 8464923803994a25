"""Tests of jobs whose checkpoints are in HDFS, with real drivers, a real NameNode and a real DataNode."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.hdfs_server import HdfsServer
from streamkeeper.checkpoints.hdfs_tree import HdfsTree
from tests.integration.remote_house import told_at_dry_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.hdfs, pytest.mark.timeout(900)]
ROUNDS = 15
Write = Callable[[int, threading.Barrier], None]


@pytest.fixture
def checkpoints(hdfs_url: str) -> str:
    return f"{hdfs_url}/checkpoints"


def spark_writer(spark: SparkSession, root: str, *, overwriting: bool = False) -> Write:
    """Return a writer that creates checkpoint files through a Spark file manager of its own and learns at the close
    whether it was first.
    """
    jvm: Any = spark._jvm
    state: Any = spark._jsparkSession.sessionState()
    conf = state.newHadoopConf()
    conf.set("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "5")
    path = jvm.org.apache.hadoop.fs.Path
    manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create(path(root), conf)
    manager.mkdirs(path(root))

    def write(number: int, together: threading.Barrier) -> None:
        stream = manager.createAtomic(path(f"{root}/{number}"), overwriting)
        stream.write(bytearray(b"spark"))
        together.wait(60)
        try:
            stream.close()
        except Exception as error:
            raise (FileExistsError if "FileAlreadyExistsException" in str(error) else AssertionError)(error) from None

    return write


def tree_writer(root: str) -> Write:
    """Return a writer that creates checkpoint files as a restore does."""
    tree = HdfsTree(root)

    def write(number: int, together: threading.Barrier) -> None:
        together.wait(60)
        tree.create(str(number), [b"tree"])

    return write


def winners(*writers: Write) -> Counter[int]:
    """Let the writers create the same new file at once in ``ROUNDS`` rounds; return, for each number of winners, how
    many rounds had that number.
    """

    def wins(write: Write, number: int, together: threading.Barrier) -> bool:
        try:
            write(number, together)
        except FileExistsError:
            return False
        return True

    rounds: Counter[int] = Counter()
    with ThreadPoolExecutor(len(writers)) as pool:
        for number in range(ROUNDS):
            together = threading.Barrier(len(writers))
            running = [pool.submit(wins, write, number, together) for write in writers]
            rounds[sum(told.result(120) for told in running)] += 1
    return rounds


def test_exactly_one_of_two_writers_creates_a_file_in_hdfs(spark: SparkSession, hdfs_url: str) -> None:
    """When two drivers, or a driver and a restore, create the same checkpoint file in HDFS, exactly one succeeds in
    every round. Negative control: when Spark is allowed to overwrite, both succeed in some rounds.
    """
    drivers, mixed, control = (f"{hdfs_url}/{name}/offsets" for name in ("drivers", "mixed", "control"))
    assert winners(spark_writer(spark, drivers), spark_writer(spark, drivers)) == {1: ROUNDS}
    assert winners(spark_writer(spark, mixed), tree_writer(mixed)) == {1: ROUNDS}
    overwriting = [spark_writer(spark, control, overwriting=True) for _ in range(2)]
    assert winners(*overwriting)[2] > 0


def test_a_dry_run_reports_an_hdfs_that_cannot_be_written(
    tmp_path: Path, checkpoints: str, hdfs_server: HdfsServer
) -> None:
    """A dry run reports a missing write permission and a NameNode in safe mode with the remedy, before any driver is
    started.
    """
    assert "Permission denied: user=bob" in told_at_dry_run(tmp_path, checkpoints, {"HADOOP_USER_NAME": "bob"})
    hdfs_server.set_safe_mode("enter")
    try:
        told = told_at_dry_run(tmp_path, checkpoints, {})
    finally:
        hdfs_server.set_safe_mode("leave")
    assert "wait until `hdfs dfsadmin -safemode get` reports that the NameNode has left safe mode" in told
