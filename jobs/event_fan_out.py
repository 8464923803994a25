"""Write each batch of events to two databases, so that both contain every event once, even after a kill.

No transaction covers both databases. Each write is therefore one that can be repeated: an event replaces the event with
the same id. Spark commits the batch after the second write. If the driver is killed before this commit, the two
databases can differ until its successor repeats the batch in both of them.
"""

from pyspark.sql import functions as F

from streamkeeper import ForeachBatch, Param, Query, streaming_job

EVENTS = "event_id string, customer string, kind string, amount long"
CREATE = "CREATE TABLE IF NOT EXISTS events (event_id TEXT PRIMARY KEY, customer TEXT, kind TEXT, amount BIGINT)"
WRITE = """
INSERT INTO events (event_id, customer, kind, amount) VALUES (:event_id, :customer, :kind, :amount)
ON CONFLICT (event_id) DO UPDATE
SET customer = excluded.customer, kind = excluded.kind, amount = excluded.amount
"""


@streaming_job(
    name="event_fan_out",
    params={
        "input": Param(str, help="directory in which the event files (CSV: event_id, customer, kind, amount) arrive"),
        "warehouse": Param(str, help="URL of the first database; preferably a secret:// reference"),
        "second": Param(str, help="URL of the second database; preferably a secret:// reference"),
        "files_per_trigger": Param(int, default=100, help="maximum number of files per batch"),
        "trigger": Param(str, default="1 second", help='an interval, or "availableNow"'),
    },
)
def event_fan_out(spark, params):
    """Pass the events through unchanged, to both databases."""

    def write(batch, context):
        # The batch is computed once, because a second computation could return other rows.
        rows = [row.asDict() for row in batch.toLocalIterator()]
        write_to(params["warehouse"], rows)
        # If the driver is killed here, its successor repeats the batch in both databases.
        write_to(params["second"], rows)

    events = (
        spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", params["files_per_trigger"]).csv(params["input"])
    )
    yield Query(
        "events",
        events.where(F.col("event_id").isNotNull()),
        sink=ForeachBatch(write),
        output_mode="append",
        trigger=params["trigger"],
    )


def write_to(url, rows):
    """Write rows to the table ``events`` of one database, in one transaction."""
    import sqlalchemy as sa

    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text(CREATE))
        if rows:
            connection.execute(sa.text(WRITE), rows)
    engine.dispose()
