"""A job that stamps every sale with a word that is available only in the executors' environment."""

from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeResult

from streamkeeper import Param, Query, TableSink, streaming_job

SALES = "event_id string, customer string, amount long"


def word(_amount):
    """Return the word from a module that the driver does not have."""
    from only_on_executors import WORD

    return WORD


@F.udtf
class Stamp:
    """A table function that declares its columns when the driver's Python analyses it."""

    @staticmethod
    def analyze():
        return AnalyzeResult(StructType().add("word", "string"))

    def eval(self):
        yield ("",)


@streaming_job(
    name="stamped_rows",
    params={
        "input": Param(str, help="directory in which the sales files arrive"),
        "warehouse": Param(str, help="database URL of the rows"),
        "trigger": Param(str, default="1 second", help="an interval"),
    },
)
def stamped_rows(spark, params):
    """Write every sale to a table, with the word added."""
    sales = spark.readStream.schema(SALES).csv(params["input"])
    stamped = sales.withColumn("word", F.udf(word, Stamp().schema["word"].dataType)("amount"))
    sink = TableSink(params["warehouse"], table="stamped_rows", key=["event_id"])
    yield Query("rows", stamped, sink=sink, trigger=params["trigger"])
