"""Count events per customer and minute, with the sum of their amounts, from a Kafka topic.

An event that is later than the param `late` does not count.
"""

from pyspark.sql import functions as F

from streamkeeper import Param, Query, TableSink, streaming_job

EVENT = "event_id string, customer string, kind string, amount long, at timestamp"


@streaming_job(
    name="event_counts",
    params={
        "servers": Param(str, help="Kafka's bootstrap servers: host:port,host:port"),
        "topic": Param(str, help="topic of the events, in JSON: event_id, customer, kind, amount, at (ISO 8601)"),
        "warehouse": Param(str, help="database URL of the counts; preferably a secret:// reference"),
        "late": Param(str, default="10 minutes", help="an event that is later than this does not count"),
        "starting": Param(str, default="earliest", help="offsets from which the first batch reads: earliest or latest"),
        "max_offsets_per_trigger": Param(int, default=100_000, help="maximum number of records per batch"),
        "trigger": Param(str, default="1 second", help='an interval, or "availableNow"'),
    },
)
def event_counts(spark, params):
    """Maintain one row per customer and minute."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", params["servers"])
        .option("subscribe", params["topic"])
        .option("startingOffsets", params["starting"])
        .option("maxOffsetsPerTrigger", params["max_offsets_per_trigger"])
        .load()
    )
    events = records.select(F.from_json(F.col("value").cast("string"), EVENT).alias("event")).select("event.*")
    counts = (
        events.withWatermark("at", params["late"])
        .groupBy("customer", F.window("at", "1 minute").alias("minute"))
        .agg(F.count("*").alias("events"), F.sum("amount").alias("amount"))
        .select("customer", F.col("minute.start").alias("minute"), "events", "amount")
    )
    yield Query(
        "counts",
        counts,
        sink=TableSink(params["warehouse"], table="event_counts", key=["customer", "minute"]),
        output_mode="update",
        trigger=params["trigger"],
    )
