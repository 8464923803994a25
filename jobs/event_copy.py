"""Copy every event exactly once from CSV files to Parquet files; stateless."""

from pyspark.sql import functions as F

from streamkeeper import FileSink, Param, Query, streaming_job

EVENTS = "event_id string, customer string, kind string, amount long"


@streaming_job(
    name="event_copy",
    params={
        "input": Param(str, help="directory in which the event files (CSV: event_id, customer, kind, amount) arrive"),
        "output": Param(str, help="directory of the copies; read it with streamkeeper.read_serving"),
        "files_per_trigger": Param(int, default=100, help="maximum number of files per batch"),
        "trigger": Param(str, default="1 second", help='an interval, or "availableNow"'),
    },
)
def event_copy(spark, params):
    """Pass the events through unchanged."""
    events = (
        spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", params["files_per_trigger"]).csv(params["input"])
    )
    yield Query(
        "copy",
        events.where(F.col("event_id").isNotNull()),
        sink=FileSink(params["output"], format="parquet"),
        output_mode="append",
        trigger=params["trigger"],
    )
