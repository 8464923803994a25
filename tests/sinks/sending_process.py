"""``python -m tests.sinks.sending_process SERVERS TOPIC EPOCH HOW``: sends the numbers up to 599 as one batch to a
topic, in two tasks, with a Spark of its own.

``HOW``: ``at-once``; ``slowly``, over several seconds; or ``with-a-failure``, in which one task fails halfway and is
repeated.
"""

from __future__ import annotations

import sys
import time

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from streamkeeper import KafkaSink
from streamkeeper.jvm.task_classes import load_task_class
from streamkeeper.registry.environments import installed_jars
from streamkeeper.sinks.batch_headers import TASK_CLASS
from streamkeeper.sinks.contract import SinkContext

ROWS = 600


def send(servers: str, topic: str, epoch: int, how: str) -> None:
    """Send the batch."""
    builder = SparkSession.builder.appName("sending").master("local[2,3]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    # Small batches of rows for Python, so that a slow or failing task has sent some before.
    builder = builder.config("spark.sql.execution.pythonUDF.arrow.enabled", "false")
    spark = builder.config("spark.jars", ",".join(installed_jars(""))).getOrCreate()
    load_task_class(spark, TASK_CLASS)

    def text(number: int) -> str:
        context = TaskContext.get()
        if how == "slowly":
            time.sleep(0.02)
        if how == "with-a-failure" and number == ROWS - 20 and context is not None and context.attemptNumber() == 0:
            raise RuntimeError("this attempt fails")
        return str(number)

    batch = spark.range(0, ROWS, 1, 2).select(udf(text, "string")("id").alias("value"))
    context = SinkContext(job="sales", query="totals", version="v0001", epoch=epoch, installation="a1")
    KafkaSink(servers, topic).open(context).write(batch, 0)
    spark.stop()


if __name__ == "__main__":
    servers, topic, epoch, how = sys.argv[1:]
    send(servers, topic, int(epoch), how)
