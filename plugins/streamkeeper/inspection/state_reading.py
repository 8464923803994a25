"""Looking into the state of a checkpoint with Spark's own reader."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from streamkeeper.checkpoints.layout import numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MOST_BATCHES = 20
"""A proof reads the state of every batch there ever was: only a young checkpoint gets one."""


def has_evicted(spark: SparkSession, checkpoint: Path, operator: int) -> bool:
    """Whether any key that an operator's state ever held is gone from it, as of the last committed batch.

    True where that cannot be shown: batches pruned, too many, or a layout that the reader does not know.
    """
    batches = sorted(numbered(checkpoint / "commits"))
    if not batches or batches != list(range(len(batches))) or len(batches) > MOST_BATCHES:
        return True
    try:
        keys = [_state(spark, checkpoint, operator, each).select("key") for each in batches]
        ever = reduce(lambda one, other: one.union(other), keys)
        return not ever.subtract(keys[-1]).isEmpty()
    except Exception:  # as below
        return True


def holds_null_key(spark: SparkSession, checkpoint: Path, operator: int, position: int) -> bool:
    """Whether any key of an operator's state is null in a column, as of the last committed batch.

    Reads the whole state. True where it cannot be read: not knowing is no proof.
    """
    try:
        state = _state(spark, checkpoint, operator, max(numbered(checkpoint / "commits")))
        name = state.schema["key"].dataType.fieldNames()[position]
        return not state.filter(state["key"][name].isNull()).isEmpty()
    except Exception:  # Spark's reader refuses layouts that it does not know, each in its own way
        return True


def _state(spark: SparkSession, checkpoint: Path, operator: int, batch: int) -> DataFrame:
    reader = spark.read.format("statestore").option("operatorId", operator).option("batchId", batch)
    return reader.load(str(checkpoint))
