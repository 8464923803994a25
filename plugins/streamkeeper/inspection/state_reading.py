"""Looking into the state of a checkpoint with Spark's own reader."""

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
"""A proof reads the state of every batch there ever was: only a young checkpoint gets one."""

TIMERS = "$timers"
"""Timers beside an operator's state variables, whose names cannot begin with ``$``."""

_DESCRIBED = ("operatorId", "operatorName", "stateStoreName", "numPartitions", "operatorProperties")
_JOIN = "symmetricHashJoin"
_LIMIT = "globalLimit"
_SIDES = ("left", "right")


class StateStore(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that Spark's reader reads of an operator: its store, a join's side, a state variable, its timers.

    ``operator``: its number; ``name``: its name in Spark's plan; ``partitions``: how many it was given; ``options``:
    what the reader must be told.
    """

    operator: int
    name: str
    store: str
    partitions: int = 0
    options: dict[str, str] = {}

    @property
    def writes(self) -> bool:
        """Whether a read that fails leaves temporary files in the store: measured for state variables, Spark 4.2.0."""
        return not self.options.keys().isdisjoint({"stateVarName", "readRegisteredTimers"})


def find_state_stores(spark: SparkSession, checkpoint: Tree, batch: int) -> tuple[StateStore, ...]:
    """Everything that can be read of a checkpoint's state after a batch, in order; none without state.

    Raises what Spark raises when an operator's description cannot be read.
    """
    if "state/" not in checkpoint.fresh().names(""):
        return ()
    described = spark.read.format("state-metadata").option("batchId", batch).load(checkpoint.spark_path)
    rows = described.select(*_DESCRIBED).collect()
    found = {(store.operator, store.store): store for row in rows for store in _stores(*row)}
    return tuple(found[key] for key in sorted(found))


def read_state(spark: SparkSession, checkpoint: Tree, batch: int, store: StateStore) -> DataFrame:
    """A state store's rows after a batch: ``key``, ``value`` (or what a state variable has instead), ``partition_id``.

    The session must have the checkpoint's layout. Raises what Spark raises, most damage only once rows are read, and
    CheckpointDamaged for a partition that is gone, which Spark's reader passes over.
    """
    # Stores report to an endpoint that Spark only creates once somebody asks for its streams: without it, measured, an
    # HDFS-backed store cannot be loaded in a process that has not run a query yet.
    _ = spark.streams
    reader = spark.read.format("statestore").option("operatorId", store.operator).option("batchId", batch)
    rows = reader.options(**store.options).load(checkpoint.spark_path)
    there = set(numbered(checkpoint.fresh(), f"state/{store.operator}"))
    gone = set(range(store.partitions)) - there
    if gone and not (there == {0} and _keeps_one_partition(store, rows)):
        raise CheckpointDamaged(f"partition {min(gone)} of {store.partitions} is missing")
    return rows


def _keeps_one_partition(store: StateStore, rows: DataFrame) -> bool:
    """A limit, and an aggregate without keys, gather all rows into the first partition; the metadata counts all."""
    return store.name == _LIMIT or not rows.schema["key"].dataType.fieldNames()


def _stores(operator: int, name: str, store: str, partitions: int, properties: str | None) -> Iterator[StateStore]:
    def found(store: str, **options: str) -> StateStore:
        return StateStore(operator=operator, name=name, store=store, partitions=partitions, options=options)

    known: dict[str, Any] = json.loads(properties) if properties else {}
    if name == _JOIN:
        # A join has one store or four, by its format: its two sides are the same to a reader.
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
    """Whether any key that an operator's state ever held is gone from it, as of the last committed batch.

    True where that cannot be shown: batches pruned, too many, or a layout that the reader does not know.
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
    """Whether any key of an operator's state is null in a column, as of the last committed batch.

    Reads the whole state. True where it cannot be read: not knowing is no proof.
    """
    try:
        state = _state(spark, checkpoint, operator, max(numbered(checkpoint.fresh(), "commits")))
        name = state.schema["key"].dataType.fieldNames()[position]
        return not state.filter(state["key"][name].isNull()).isEmpty()
    except Exception:  # Spark's reader refuses layouts that it does not know, each in its own way
        return True


def _state(spark: SparkSession, checkpoint: Tree, operator: int, batch: int) -> DataFrame:
    return read_state(spark, checkpoint, batch, StateStore(operator=operator, name="", store=""))
