"""Reads a checkpoint's state with Spark's own reader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec

from streamkeeper.checkpoints.layout import numbered
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_BATCHES = 20
"""The largest number of batches for which ``has_evicted`` attempts a proof, because the proof reads the state of every
batch.
"""

TIMERS = "$timers"
"""The name for the timers of an operator. The names of its state variables cannot begin with ``$``."""

_DESCRIBED = ("operatorId", "operatorName", "stateStoreName", "numPartitions", "operatorProperties")
_JOIN = "symmetricHashJoin"
_LIMIT = "globalLimit"
_SIDES = ("left", "right")


class StateStore(msgspec.Struct, frozen=True, kw_only=True):
    """One part of an operator's state that Spark's reader can read: a store, a join's side, a state variable, or
    timers.
    """

    operator: int
    """The number of the operator."""
    name: str
    """The operator's name in Spark's plan."""
    store: str
    """The name of the store, the side, the variable or the timers."""
    partitions: int = 0
    """The number of partitions of the operator's state."""
    options: dict[str, str] = {}
    """Options for Spark's reader."""

    @property
    def writes(self) -> bool:
        """Whether a failing read leaves temporary files in the store. Measured for state variables with Spark 4.2.0."""
        return not self.options.keys().isdisjoint({"stateVarName", "readRegisteredTimers"})


def find_state_stores(spark: SparkSession, checkpoint: Tree, batch: int) -> tuple[StateStore, ...]:
    """Return the readable stores of a checkpoint's state after a batch, in order; empty if there is no state.

    Raises Spark's error if the description of an operator cannot be read.
    """
    if "state/" not in checkpoint.fresh().names(""):
        return ()
    described = spark.read.format("state-metadata").option("batchId", batch).load(checkpoint.spark_path)
    rows = described.select(*_DESCRIBED).collect()
    found = {(store.operator, store.store): store for row in rows for store in _stores(*row)}
    return tuple(found[key] for key in sorted(found))


def read_state(spark: SparkSession, checkpoint: Tree, batch: int, store: StateStore) -> DataFrame:
    """Return the rows of a state store after a batch, with ``key``, ``value`` and ``partition_id``.

    The rows of a state variable have other columns. The session must have the checkpoint's layout. Raises Spark's
    errors, most of them only when rows are read. Raises CheckpointDamaged if a partition is missing; Spark's reader
    would return the rest without an error.
    """
    # Stores report to an endpoint that Spark creates only when its streams are first used. Measured: without it, an
    # HDFS-backed store cannot be loaded in a process that has not run a query yet.
    _ = spark.streams
    reader = spark.read.format("statestore").option("operatorId", store.operator).option("batchId", batch)
    rows = reader.options(**store.options).load(checkpoint.spark_path)
    there = set(numbered(checkpoint.fresh(), f"state/{store.operator}"))
    missing = set(range(store.partitions)) - there
    if missing and not (there == {0} and _keeps_one_partition(store, rows)):
        raise CheckpointDamaged(f"partition {min(missing)} of {store.partitions} is missing")
    return rows


def _keeps_one_partition(store: StateStore, rows: DataFrame) -> bool:
    """Whether the first partition has all rows, as in a limit or an aggregate without keys, whose metadata count all
    partitions.
    """
    return store.name == _LIMIT or not rows.schema["key"].dataType.fieldNames()


def _stores(operator: int, name: str, store: str, partitions: int, properties: str | None) -> Iterator[StateStore]:
    """Yield the parts of the state that Spark's reader can read, from one row of the state metadata.

    ``operator``: the number of the operator.
    ``name``: its name in Spark's plan.
    ``store``: the name of the store.
    ``partitions``: the number of its partitions according to the metadata.
    ``properties``: the operator's properties as JSON, if any.
    """

    def found(store: str, **options: str) -> StateStore:
        return StateStore(operator=operator, name=name, store=store, partitions=partitions, options=options)

    known: dict[str, Any] = json.loads(properties) if properties else {}
    if name == _JOIN:
        # A join has one store or four, depending on its format. For a reader, there are always its two sides.
        for side in _SIDES:
            yield found(side, joinSide=side)
    elif "stateVariables" not in known:
        yield found(store, storeName=store)
    else:
        for variable in known["stateVariables"]:
            if variable["stateVariableType"] == "TimerState":
                yield found(TIMERS, readRegisteredTimers="true")
            else:
                yield found(variable["stateName"], stateVarName=variable["stateName"])


def has_evicted(spark: SparkSession, checkpoint: Tree, operator: int) -> bool:
    """Whether an operator's state may lack a key that it once contained, as of the last committed batch.

    Returns False only with a proof that no key is missing. The proof is impossible if batches were pruned, if there are
    too many batches, or if the reader does not support the layout.
    """
    batches = sorted(numbered(checkpoint.fresh(), "commits"))
    if not batches or batches != list(range(len(batches))) or len(batches) > MOST_BATCHES:
        return True
    try:
        keys = [_state(spark, checkpoint, operator, batch).select("key") for batch in batches]
        ever = reduce(lambda one, other: one.union(other), keys)
        return not ever.subtract(keys[-1]).isEmpty()
    except Exception:  # as below
        return True


def holds_null_key(spark: SparkSession, checkpoint: Tree, operator: int, position: int) -> bool:
    """Whether a column of the keys in an operator's state may contain null, as of the last committed batch.

    ``position``: the column's position in the key. Reads the whole state. Returns True if the state cannot be read,
    because nothing is proven then.
    """
    try:
        state = _state(spark, checkpoint, operator, max(numbered(checkpoint.fresh(), "commits")))
        name = state.schema["key"].dataType.fieldNames()[position]
        return not state.filter(state["key"][name].isNull()).isEmpty()
    except Exception:  # Spark's reader refuses unknown layouts, each in its own way
        return True


def _state(spark: SparkSession, checkpoint: Tree, operator: int, batch: int) -> DataFrame:
    return read_state(spark, checkpoint, batch, StateStore(operator=operator, name="", store=""))
