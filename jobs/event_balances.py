"""Add the amounts of Kafka events to one balance per customer, each event once.

An addition must not be repeated. So the transaction that changes the balances also stores, for each partition of the
topic, the offset of the newest record that they include. Records up to this offset are skipped: after a killed driver,
whose successor repeats the batch, after a switch to a new checkpoint, and after a restore of an older checkpoint.

The offsets of a topic that was deleted and recreated start at 0. Before you approve such a topic, delete its rows of
the table ``balance_offsets``; otherwise its first records are skipped.
"""

from collections import Counter

from pyspark.sql import functions as F

from streamkeeper import ForeachBatch, Param, Query, streaming_job

EVENT = "event_id string, customer string, kind string, amount long, at timestamp"
CREATE = (
    "CREATE TABLE IF NOT EXISTS balances (customer TEXT PRIMARY KEY, balance BIGINT NOT NULL)",
    'CREATE TABLE IF NOT EXISTS balance_offsets (topic TEXT, part INTEGER, "offset" BIGINT, PRIMARY KEY (topic, part))',
)
ADD = """
INSERT INTO balances (customer, balance) VALUES (:customer, :amount)
ON CONFLICT (customer) DO UPDATE SET balance = balances.balance + excluded.balance
"""
INCLUDED = 'SELECT topic, part, "offset" FROM balance_offsets'
INCLUDE = """
INSERT INTO balance_offsets (topic, part, "offset") VALUES (:topic, :part, :offset)
ON CONFLICT (topic, part) DO UPDATE SET "offset" = excluded."offset"
"""


@streaming_job(
    name="event_balances",
    params={
        "servers": Param(str, help="Kafka's bootstrap servers: host:port,host:port"),
        "topic": Param(str, help="topic of the events, in JSON: event_id, customer, kind, amount, at (ISO 8601)"),
        "warehouse": Param(str, help="database URL of the balances; preferably a secret:// reference"),
        "starting": Param(str, default="earliest", help="offsets from which the first batch reads: earliest or latest"),
        "max_offsets_per_trigger": Param(int, default=10_000, help="maximum number of records per batch"),
        "trigger": Param(str, default="1 second", help='an interval, or "availableNow"'),
    },
)
def event_balances(spark, params):
    """Maintain one balance per customer."""

    def write(batch, context):
        add(params["warehouse"], batch.toLocalIterator())

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", params["servers"])
        .option("subscribe", params["topic"])
        .option("startingOffsets", params["starting"])
        .option("maxOffsetsPerTrigger", params["max_offsets_per_trigger"])
        .load()
    )
    event = F.from_json(F.col("value").cast("string"), EVENT)
    yield Query(
        "balances",
        records.select("topic", "partition", "offset", event.customer.alias("customer"), event.amount.alias("amount")),
        sink=ForeachBatch(write),
        output_mode="append",
        trigger=params["trigger"],
    )


def add(url, records):
    """Add the amounts of the records that the balances do not include yet, in one transaction."""
    import sqlalchemy as sa

    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in CREATE:
            connection.execute(sa.text(statement))
        included = {(topic, part): offset for topic, part, offset in connection.execute(sa.text(INCLUDED))}
        newest, amounts = dict(included), Counter()
        for record in records:
            partition = (record["topic"], record["partition"])
            if record["offset"] <= included.get(partition, -1):
                continue
            newest[partition] = max(record["offset"], newest.get(partition, -1))
            if record["customer"] is not None and record["amount"] is not None:
                amounts[record["customer"]] += record["amount"]
        if newest != included:
            rows = [{"customer": customer, "amount": amount} for customer, amount in amounts.items()]
            if rows:
                connection.execute(sa.text(ADD), rows)
            # If the driver is killed here, the database undoes the balances too.
            offsets = [{"topic": topic, "part": part, "offset": offset} for (topic, part), offset in newest.items()]
            connection.execute(sa.text(INCLUDE), offsets)
    engine.dispose()
