"""A job without state that writes every sale once under its id."""

from streamkeeper import Param, Query, TableSink, streaming_job

SALES = "event_id string, customer string, amount long"


@streaming_job(
    name="sales_rows",
    params={
        "input": Param(str, help="directory in which the sales files arrive"),
        "warehouse": Param(str, help="database URL of the rows"),
        "trigger": Param(str, default="1 second", help="an interval"),
    },
)
def sales_rows(spark, params):
    """Write every sale unchanged to a table."""
    sales = spark.readStream.schema(SALES).csv(params["input"])
    sink = TableSink(params["warehouse"], table="sales_rows", key=["event_id"])
    yield Query("rows", sales, sink=sink, trigger=params["trigger"])
