"""Reads the whole state of a checkpoint as text, so that two states can be compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.inspection.state_layout import session_for
from streamkeeper.inspection.state_reading import find_state_stores, read_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_state_rows(spark: SparkSession, checkpoint: Path, as_text: Callable[[Any], str]) -> list[str]:
    """Return the sorted rows of all state stores after the last committed batch; raises the errors that Spark raises.

    The partition of a row is left out, because it does not belong to the row's meaning.
    """
    batch = last_committed(LocalTree(checkpoint))
    if batch is None:
        return []
    found = []
    with session_for(spark, LocalTree(checkpoint)) as session:
        for store in find_state_stores(session, LocalTree(checkpoint), batch):
            rows = read_state(session, LocalTree(checkpoint), batch, store).drop("partition_id").collect()
            found += [f"{store.operator}/{store.store} {as_text(tuple(row))}" for row in rows]
    return sorted(found)
