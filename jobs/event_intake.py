"""Write Kafka events to one table, and every record that is not an event to a table of rejected records.

One transaction writes both tables, so the events and the rejected records of a batch become visible together. Both
writes can be repeated: an event replaces the event with the same id, and a rejected record is identified by its place
in the topic. A rejected record whose bytes a database cannot store as text is stored in hexadecimal form.
"""

from datetime import UTC

from pyspark.sql import functions as F

from streamkeeper import ForeachBatch, Param, Query, streaming_job

EVENT = "event_id string, customer string, kind string, amount long, at timestamp, broken string"
CREATE = (
    "CREATE TABLE IF NOT EXISTS events (event_id TEXT PRIMARY KEY, customer TEXT, kind TEXT, amount BIGINT, at TEXT)",
    "CREATE TABLE IF NOT EXISTS rejected_records (topic TEXT, part INTEGER, position BIGINT, reason TEXT NOT NULL,"
    " record TEXT, PRIMARY KEY (topic, part, position))",
)
WRITE = """
INSERT INTO events (event_id, customer, kind, amount, at) VALUES (:event_id, :customer, :kind, :amount, :at)
ON CONFLICT (event_id) DO UPDATE
SET customer = excluded.customer, kind = excluded.kind, amount = excluded.amount, at = excluded.at
"""
REJECT = """
INSERT INTO rejected_records (topic, part, position, reason, record)
VALUES (:topic, :partition, :offset, :reason, :record)
ON CONFLICT (topic, part, position) DO NOTHING
"""


@streaming_job(
    name="event_intake",
    params={
        "servers": Param(str, help="Kafka's bootstrap servers: host:port,host:port"),
        "topic": Param(str, help="topic of the events, in JSON: event_id, customer, kind, amount, at (ISO 8601)"),
        "warehouse": Param(str, help="database URL of both tables; preferably a secret:// reference"),
        "starting": Param(str, default="earliest", help="offsets from which the first batch reads: earliest or latest"),
        "max_offsets_per_trigger": Param(int, default=10_000, help="maximum number of records per batch"),
        "trigger": Param(str, default="1 second", help='an interval, or "availableNow"'),
    },
)
def event_intake(spark, params):
    """Separate events from all other records."""

    def write(batch, context):
        store(params["warehouse"], batch.toLocalIterator())

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", params["servers"])
        .option("subscribe", params["topic"])
        .option("startingOffsets", params["starting"])
        .option("maxOffsetsPerTrigger", params["max_offsets_per_trigger"])
        .load()
        .select("topic", "partition", "offset", "value", F.col("value").cast("string").alias("text"))
    )
    event = F.from_json("text", EVENT, {"columnNameOfCorruptRecord": "broken"})
    texts = F.concat_ws("", "event.event_id", "event.customer", "event.kind")
    storable = F.is_valid_utf8("text") & ~F.contains("text", F.lit("\0"))
    reason = (
        F.when(F.col("event.broken").isNotNull() | F.col("event").isNull(), "it is not JSON of an event")
        .when(F.col("event.event_id").isNull(), "it has no event_id")
        .when(F.col("event.amount").isNull(), "it has no amount")
        .when(texts.contains("\0"), "it contains the character U+0000")
    )
    record = F.when(storable, F.col("text")).otherwise(F.hex("value"))
    yield Query(
        "intake",
        records.withColumn("event", event).select(
            "topic", "partition", "offset", "event", reason.alias("reason"), record.alias("record")
        ),
        sink=ForeachBatch(write),
        output_mode="append",
        trigger=params["trigger"],
    )


def store(url, records):
    """Write each record to one of the two tables, all in one transaction."""
    import sqlalchemy as sa

    events, rejected = [], []
    for record in records:
        if record["reason"] is None:
            event = record["event"].asDict()
            # A row's timestamp has no zone: it is in the time zone of this process.
            events.append({**event, "at": None if event["at"] is None else event["at"].astimezone(UTC).isoformat()})
        else:
            rejected.append({name: record[name] for name in ("topic", "partition", "offset", "reason", "record")})
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in CREATE:
            connection.execute(sa.text(statement))
        if events:
            connection.execute(sa.text(WRITE), events)
        # If the driver is killed here, the database undoes the events too.
        if rejected:
            connection.execute(sa.text(REJECT), rejected)
    engine.dispose()
