"""The campaign's job on a Kafka topic, with a query per kind of sink, each of which a release changes in a different
way.

An odd ``shape`` adds an aggregate to ``counts`` (rebuild). An odd ``layout`` changes the partitions of ``copies``
(handoff). ``audit`` resumes. The job has the name of the campaign's other job, because it uses the same checks and
commands.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamkeeper import BatchContext, FileSink, ForeachBatch, Param, Query, TableSink, streaming_job

EVENT = "event_id string, customer string, kind string, amount long, at timestamp"


def audit(path: str) -> Callable[[DataFrame, BatchContext], None]:
    """Return a sink function that repeats what is written twice: each batch appends a line with its epoch and its event
    ids.
    """

    def append(batch: DataFrame, context: BatchContext) -> None:
        ids = [row.event_id for row in batch.select("event_id").collect()]
        line = json.dumps({"epoch": context.epoch, "batch": context.batch_id, "ids": ids})
        with open(path, "a") as file:
            file.write(line + "\n")

    return append


def counted(events: DataFrame, shape: int) -> DataFrame:
    """Aggregate count and sum by customer and minute; an odd shape adds the largest amount."""
    wanted = {"events": F.count("*"), "amount": F.sum("amount")}
    if shape % 2:
        wanted["largest"] = F.max("amount")
    grouped = events.withWatermark("at", "10 minutes").groupBy("customer", F.window("at", "1 minute").alias("minute"))
    counts = grouped.agg(*(each.alias(name) for name, each in wanted.items()))
    return counts.select("customer", F.col("minute.start").alias("minute"), *wanted)


@streaming_job(
    name="ledgers",
    params={
        "servers": Param(str, help="Kafka's bootstrap servers"),
        "topic": Param(str, help="topic of the events, in JSON"),
        "output": Param(str, help="folder for all three outputs"),
        "trigger": Param(str, default="1 second", help="of every query"),
        "per_trigger": Param(int, default=400, help="at most so many records per batch"),
        "shape": Param(int, default=0, help="odd: other state for counts"),
        "passes_over": Param(bool, default=False, help="go on after records that the topic has dropped"),
        "layout": Param(int, default=0, help="odd: other partitions for copies"),
    },
)
def topic_ledgers(spark: SparkSession, params: Mapping[str, Any]) -> Iterator[Query]:
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", params["servers"])
        .option("subscribe", params["topic"])
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", str(not params["passes_over"]).lower())
        .option("maxOffsetsPerTrigger", params["per_trigger"])
        .load()
    )
    events = records.select(F.from_json(F.col("value").cast("string"), EVENT).alias("event")).select("event.*")
    output, trigger = params["output"], params["trigger"]
    warehouse = TableSink(f"sqlite:///{output}/warehouse.db", table="event_counts", key=["customer", "minute"])
    copies = FileSink(f"{output}/copies", partition_by=["kind"] if params["layout"] % 2 else [])
    counts = counted(events, params["shape"])
    yield Query("counts", counts, sink=warehouse, output_mode="update", trigger=trigger)
    yield Query("copies", events, sink=copies, trigger=trigger)
    yield Query("audit", events, sink=ForeachBatch(audit(f"{output}/audit.jsonl")), trigger=trigger)
