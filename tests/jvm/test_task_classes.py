"""Tests the Java class that names the attempt of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamkeeper.jvm.task_classes import load_task_class
from streamkeeper.sinks.batch_headers import TASK_CLASS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_each_task_gets_the_id_of_its_own_attempt(spark: SparkSession) -> None:
    """All rows of a task get the id of its attempt, and each task and each run of a task has another id."""
    load_task_class(spark, TASK_CLASS)
    frame = spark.range(0, 6, 1, 2)
    ids = f"CAST(reflect('streamkeeper.jvm.{TASK_CLASS}', 'id') AS BIGINT) AS id"
    runs = [frame.selectExpr("spark_partition_id() AS partition", ids).distinct().collect() for _ in range(2)]
    assert [sorted(row.partition for row in run) for run in runs] == [[0, 1], [0, 1]]
    assert len({row.id for run in runs for row in run}) == 4
    assert min(row.id for row in runs[1]) > max(row.id for row in runs[0])


def test_a_class_that_is_not_loaded_fails_before_a_task_runs(spark: SparkSession) -> None:
    """Without the class, the plan of a batch cannot be made, so that no record without an attempt is sent."""
    with pytest.raises(Exception, match="NoSuchClass"):
        spark.range(1).selectExpr("reflect('streamkeeper.jvm.NoSuchClass', 'id')")
