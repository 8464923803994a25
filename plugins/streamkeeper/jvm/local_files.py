"""Writes checkpoints to a local disk without starting a process for each file: ``LocalFiles.java`` replaces Hadoop's
own class.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkeeper.jvm.classes import load_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "fs.AbstractFileSystem.file.impl"
HADOOPS = "org.apache.hadoop.fs.local.LocalFs"


def write_without_processes(spark: SparkSession) -> None:
    """Make the JVM write checkpoint files without starting processes, with the same names, bytes and modes.

    Nothing changes if Hadoop's configuration sets a class for local files that is not Hadoop's default. Nothing changes
    either in a session with a remote master, because its executors lack the driver's classes. Call this after the
    session's start, because the class cannot be found earlier, and before the session's first query.
    """
    context: Any = spark.sparkContext
    configuration = context._jsc.hadoopConfiguration()
    if context._jsc.isLocal() and configuration.get(KEY) == HADOOPS:
        configuration.set(KEY, load_class(spark, Path(__file__).with_name("LocalFiles.java")).getName())
