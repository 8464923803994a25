"""Compute count, sum and sum of squares of the sales per customer, over all sales files that ever arrived."""

from pyspark.sql import functions as F

from streamkeeper import Param, Query, TableSink, streaming_job

SALES = "event_id string, customer string, amount long"


@streaming_job(
    name="sales_totals",
    params={
        "input": Param(str, help="directory in which the sales files (CSV: event_id, customer, amount) arrive"),
        "warehouse": Param(str, help="database URL of the totals; preferably a secret:// reference"),
        "files_per_trigger": Param(int, default=100, help="maximum number of files per batch"),
        "trigger": Param(str, default="1 second", help='an interval, or "availableNow"'),
    },
)
def sales_totals(spark, params):
    """Maintain one row per customer."""
    sales = (
        spark.readStream.schema(SALES).option("maxFilesPerTrigger", params["files_per_trigger"]).csv(params["input"])
    )
    totals = sales.groupBy("customer").agg(
        F.count("*").alias("sales"),
        F.sum("amount").alias("total"),
        F.sum(F.col("amount") * F.col("amount")).alias("squares"),
    )
    yield Query(
        "totals",
        totals,
        sink=TableSink(params["warehouse"], table="sales_totals", key=["customer"]),
        output_mode="update",
        trigger=params["trigger"],
    )
