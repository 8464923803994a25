"""Checkpoints on a local disk without a process for each file: ``LocalFiles.java`` in the place of Hadoop's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkeeper.jvm.classes import load_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "fs.AbstractFileSystem.file.impl"
HADOOPS = "org.apache.hadoop.fs.local.LocalFs"


def write_without_processes(spark: SparkSession) -> None:
    """From now on the session's checkpoint files are written by the JVM alone, with the same names, bytes and modes.

    Whatever Hadoop's configuration names by itself stays. Only a local master's tasks have the driver's classes, so
    with another master nothing changes. Called before the session's first query; before the session's start the class
    could not be found.
    """
    context: Any = spark.sparkContext
    configuration = context._jsc.hadoopConfiguration()
    if context._jsc.isLocal() and configuration.get(KEY) == HADOOPS:
        configuration.set(KEY, load_class(spark, Path(__file__).with_name("LocalFiles.java")).getName())
