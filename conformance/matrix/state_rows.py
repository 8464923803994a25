"""The whole state of a checkpoint as text, for comparing two of them."""

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
    """Every row of every store after the last batch, in order; raises what Spark raises.

    In which partition a row lies is left out: that is no part of its meaning.
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
