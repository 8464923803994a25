"""One job with a query per kind of sink: what the crash campaign deploys again and again."""

import json
import time

from pyspark.sql import functions as F

from streamkeeper import FileSink, ForeachBatch, Param, Query, TableSink, streaming_job
from streamkeeper.crash_points import crash_point

SALES = "event_id string, customer string, amount long"
EVENTS = "event_id string, customer string, kind string, amount long"


def audit(path, slow_s):
    """A sink that doubles what is written twice: each batch appends a line with its epoch and its event ids."""

    def append(batch, context):
        ids = [row.event_id for row in batch.select("event_id").collect()]
        line = json.dumps({"epoch": context.epoch, "batch": context.batch_id, "ids": ids})
        crash_point("audit.append.before")
        with open(path, "a") as file:
            file.write(line + "\n")
        if slow_s:
            # A job of Spark's, for that is what a stop interrupts: Python alone would be waited for.
            batch.sparkSession.sparkContext.parallelize([slow_s], 1).foreach(time.sleep)

    return append


@streaming_job(
    name="ledgers",
    params={
        "input": Param(str, help="folder with sales/ and events/"),
        "output": Param(str, help="folder for all three outputs"),
        "trigger": Param(str, default="400 milliseconds", help="of every query"),
        "slow_s": Param(float, default=0.0, help="how long an audit batch lasts after its write"),
        "broken": Param(bool, default=False, help="fail every batch: a release that cannot serve"),
    },
)
def ledgers(spark, params):
    sales = spark.readStream.schema(SALES).csv(params["input"] + "/sales")
    events = spark.readStream.schema(EVENTS).csv(params["input"] + "/events")
    amount = F.col("amount")
    totals = sales.groupBy("customer").agg(
        F.count("*").alias("sales"), F.sum(amount).alias("total"), F.sum(amount * amount).alias("squares")
    )
    if params["broken"]:
        events = events.where(F.raise_error(F.lit("this release is broken")).isNull())
    trigger, output = params["trigger"], params["output"]
    warehouse = TableSink(f"sqlite:///{output}/warehouse.db", table="totals", key=["customer"])
    yield Query("totals", totals, sink=warehouse, output_mode="update", trigger=trigger)
    yield Query("copies", events, sink=FileSink(f"{output}/copies"), trigger=trigger)
    yield Query("audit", events, sink=ForeachBatch(audit(f"{output}/audit.jsonl", params["slow_s"])), trigger=trigger)
