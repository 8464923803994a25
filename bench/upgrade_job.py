"""The job that is upgraded while it serves: an aggregation into a table, and a deduplication into files."""

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streamkeeper import FileSink, Param, Query, TableSink, streaming_job


@streaming_job(
    name="upgrade_job",
    params={
        "input": Param(str, help="folder with sales/ and events/"),
        "output": Param(str, help="folder for both outputs"),
    },
)
def upgrade_job(spark: SparkSession, params: Mapping[str, Any]) -> Iterator[Query]:
    sales = spark.readStream.schema("event_id string, customer string, amount long").csv(params["input"] + "/sales")
    events = spark.readStream.schema("event_id string, customer string, kind string, amount long").csv(
        params["input"] + "/events"
    )
    amount = F.col("amount")
    totals = sales.groupBy("customer").agg(
        F.count("*").alias("sales"), F.sum(amount).alias("total"), F.sum(amount * amount).alias("squares")
    )
    table = TableSink(f"sqlite:///{params['output']}/warehouse.db", table="totals", key=["customer"])
    yield Query("totals", totals, sink=table, output_mode="update", trigger="500 milliseconds")
    firsts = events.dropDuplicates(["event_id"])
    yield Query("firsts", firsts, sink=FileSink(f"{params['output']}/firsts"), trigger="500 milliseconds")
