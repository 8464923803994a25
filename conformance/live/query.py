"""A query that commits twice a second and retains as little as Spark allows: ``python -m conformance.live.query …``.

Arguments: ``<checkpoint> <input> <layout>``; it runs until it is killed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.state_layouts import LAYOUTS
from streamkeeper.driver.session import class_archive
from streamkeeper.jvm.local_files import write_without_processes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STATE = "spark.sql.streaming.stateStore."
HASTE = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.fileSource.log.compactInterval": "3",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "1",
    f"{_STATE}minDeltasForSnapshot": "3",
    f"{_STATE}maintenanceInterval": "150ms",
}
"""Confs for the most aggressive cleanup that Spark can be configured for."""
SCHEMA = "customer string, amount long"


def session(layout: str, scratch: Path, name: str, haste: dict[str, str]) -> SparkSession:
    """Open a small local session that writes its checkpoints in the same way as a driver's session."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName(name)
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": class_archive(),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **LAYOUTS[layout],
        **haste,
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    write_without_processes(spark)
    return spark


def totals(spark: SparkSession, source: Path) -> DataFrame:
    """Return the total amount per customer, reading one file a batch."""
    from pyspark.sql import functions as F

    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).csv(str(source))
    return read.groupBy("customer").agg(F.sum("amount").alias("total"), F.count("*").alias("rows"))


def main() -> None:
    """Run the query until the process is killed."""
    checkpoint, source, layout = sys.argv[1:]
    spark = session(layout, Path(checkpoint).with_name("spark-local"), "live", HASTE)
    query = totals(spark, Path(source)).writeStream.outputMode("update").format("noop")
    query.option("checkpointLocation", checkpoint).trigger(processingTime="400 milliseconds").start().awaitTermination()


if __name__ == "__main__":
    main()
