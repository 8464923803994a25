"""The job that the crash campaign deploys repeatedly, with a query per kind of sink.

An odd ``shape`` changes the table of ``totals`` (rebuild) and the layout of ``copies`` (handoff), and leaves ``audit``
unchanged (resume). With ``tables=delta``, totals and copies are Delta tables, and with ``tables=append``, copies is a
table without a key; ``copies`` then resumes. ``code`` is a
constant in a Python function below the state of ``totals``; a different one is an opaque change. ``warehouse`` is a
database for ``totals`` and, as a table, for ``copies``; tasks on other machines can write nothing else.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from streamkeeper import (
    AppendTableSink,
    BatchContext,
    DeltaSink,
    FileSink,
    ForeachBatch,
    Param,
    Query,
    TableSink,
    streaming_job,
)
from streamkeeper.system.crash_points import crash_point

SALES = "event_id string, customer string, amount long"
EVENTS = "event_id string, customer string, kind string, amount long"


BREAKS_AFTER = {"cutover": 0, "probation": 5}
"""The number of audit batches that a release writes before it fails at that step."""


def audit(path: str, slow_s: float, breaks: str) -> Callable[[DataFrame, BatchContext], None]:
    """Return a sink function that repeats what is written twice: each batch appends a line with its epoch and its event
    ids.
    """
    written: list[int] = []

    def append(batch: DataFrame, context: BatchContext) -> None:
        if breaks in BREAKS_AFTER and len(written) >= BREAKS_AFTER[breaks]:
            raise RuntimeError(f"this release is broken: {breaks}")
        written.append(context.batch_id)
        if os.path.exists(f"{path}.unbounded"):
            # All of a column in one row: the heap is never large enough.
            batch.sparkSession.range(1 << 40).agg(F.size(F.collect_list("id"))).collect()
        ids = [row.event_id for row in batch.select("event_id").collect()]
        line = json.dumps({"epoch": context.epoch, "batch": context.batch_id, "ids": ids})
        crash_point("audit.append.before")
        with open(path, "a") as file:
            file.write(line + "\n")
        if slow_s:
            # A job of Spark's, for that is what a stop interrupts: Python alone would be waited for.
            batch.sparkSession.sparkContext.parallelize([slow_s], 1).foreach(time.sleep)

    return append


def weighed(code: int, bias: int) -> Callable[[Column], Column]:
    """Return a function that adds ``bias`` to the amounts through Python code whose effect cannot be proven."""
    function: Callable[[Column], Column] = F.udf(lambda amount: amount + 0 * code + bias, "long")
    return function


def read(spark: SparkSession, schema: str, folder: str, named: bool, **options: Any) -> DataFrame:
    """Read a folder of CSV files; with ``named`` as a named source, which needs two settings of the session."""
    stream = spark.readStream.schema(schema).options(**options)
    return (stream.name(folder.rpartition("/")[2]) if named else stream).csv(folder)


def totalled(sales: DataFrame, amount: Column, shape: int) -> DataFrame:
    """Aggregate count, sum and sum of squares by customer; an odd shape adds the largest amount."""
    wanted = [F.count("*").alias("sales"), F.sum(amount).alias("total"), F.sum(amount * amount).alias("squares")]
    if shape % 2:
        wanted.append(F.max(amount).alias("largest"))
    return sales.groupBy("customer").agg(*wanted)


@streaming_job(
    name="ledgers",
    params={
        "input": Param(str, help="folder with sales/ and events/"),
        "output": Param(str, help="folder for all three outputs"),
        "warehouse": Param(str, default="", help="database URL, where tasks run elsewhere; no audit then"),
        "tables": Param(str, default="", help="delta: Delta tables for totals and copies; append: a table for copies"),
        "trigger": Param(str, default="400 milliseconds", help="of every query"),
        "slow_s": Param(float, default=0.0, help="how long an audit batch lasts after its write"),
        "broken": Param(bool, default=False, help="fail every batch: a release that cannot serve"),
        "shape": Param(int, default=0, help="odd: other state for totals, other partitions for copies"),
        "code": Param(int, default=0, help="what the Python code of totals captures; 0: it has none"),
        "bias": Param(int, default=0, help="what that code adds to every amount"),
        "skip": Param(str, default="", help="sales whose event id ends so are left out of the totals"),
        "named": Param(bool, default=False, help="sources with names"),
        "cleaner": Param(str, default="", help="what becomes of sales that were read: delete or archive"),
        "archive": Param(str, default="", help="where they are archived"),
        "sets": Param(str, default="", help="a conf that the job's code sets, as key=value"),
        "breaks": Param(str, default="", help="where a release fails: shadow, cutover or probation"),
    },
)
def ledgers(spark: SparkSession, params: Mapping[str, Any]) -> Iterator[Query]:
    if params["sets"]:
        spark.conf.set(*params["sets"].split("=", 1))
    # A cleaner takes a batch's files away once the next batch is planned.
    cleaner = {"cleanSource": params["cleaner"], "sourceArchiveDir": params["archive"], "maxFilesPerTrigger": 1}
    sales = read(spark, SALES, params["input"] + "/sales", params["named"], **(cleaner if params["cleaner"] else {}))
    events = read(spark, EVENTS, params["input"] + "/events", params["named"])
    amount, trigger, output = F.col("amount"), params["trigger"], params["output"]
    if params["code"]:
        amount = weighed(params["code"], params["bias"])(amount)
    if params["skip"]:
        sales = sales.where(~F.col("event_id").endswith(params["skip"]))
    if params["breaks"] == "shadow":
        # Only who reads from the beginning comes by it.
        first = F.col("event_id") == "e000000-000"
        sales = sales.where(F.when(first, F.raise_error(F.lit("this release is broken: shadow"))).isNull())
    if params["broken"]:
        events = events.where(F.raise_error(F.lit("this release is broken")).isNull())
    database = params["warehouse"] or f"sqlite:///{output}/warehouse.db"
    into_delta = params["tables"] == "delta"
    table = TableSink(database, table="totals", key=["customer"])
    warehouse = DeltaSink(f"{output}/totals", key=["customer"]) if into_delta else table
    totals = totalled(sales, amount, params["shape"])
    yield Query("totals", totals, sink=warehouse, output_mode="update", trigger=trigger)
    if params["warehouse"]:
        yield Query("copies", events, sink=TableSink(database, table="copies", key=["event_id"]), trigger=trigger)
        return
    copies: FileSink | DeltaSink | AppendTableSink
    match params["tables"]:
        case "delta":
            copies = DeltaSink(f"{output}/copies")
        case "append":
            copies = AppendTableSink(database, table="copies")
        case _:
            copies = FileSink(f"{output}/copies", partition_by=["kind"] if params["shape"] % 2 else [])
    lines = ForeachBatch(audit(f"{output}/audit.jsonl", params["slow_s"], params["breaks"]))
    yield Query("copies", events, sink=copies, trigger=trigger)
    yield Query("audit", events, sink=lines, trigger=trigger)
