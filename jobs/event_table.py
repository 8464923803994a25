"""Write every event from a Kafka topic to a table, under the event's id. Stateless.

An event of a later batch replaces the event with the same id. The sink refuses a batch that contains an id twice.
"""

from pyspark.sql import functions as F

from streamkeeper import Param, Query, TableSink, streaming_job

EVENT = "event_id string, customer string, kind string, amount long, at timestamp"


@streaming_job(
    name="event_table",
    params={
        "servers": Param(str, help="Kafka's bootstrap servers: host:port,host:port"),
        "topic": Param(str, help="topic of the events, in JSON: event_id, customer, kind, amount, at (ISO 8601)"),
        "warehouse": Param(str, help="database URL of the events; preferably a secret:// reference"),
        "starting": Param(str, default="earliest", help="offsets from which the first batch reads: earliest or latest"),
        "max_offsets_per_trigger": Param(int, default=100_000, help="maximum number of records per batch"),
        "trigger": Param(str, default="1 second", help='an interval, or "availableNow"'),
    },
)
def event_table(spark, params):
    """Write one row per event, under its id."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", params["servers"])
        .option("subscribe", params["topic"])
        .option("startingOffsets", params["starting"])
        .option("maxOffsetsPerTrigger", params["max_offsets_per_trigger"])
        .load()
    )
    events = records.select(F.from_json(F.col("value").cast("string"), EVENT).alias("event")).select("event.*")
    yield Query(
        "events",
        events.where(F.col("event_id").isNotNull()),
        sink=TableSink(params["warehouse"], table="events", key=["event_id"]),
        output_mode="append",
        trigger=params["trigger"],
    )
