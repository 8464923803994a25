"""Writes checkpoints on a local disk without a process for each file: ``LocalFiles.java`` replaces Hadoop's own
class.
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

    If Hadoop's configuration sets another class for local files than Hadoop's default, that class stays. A session with
    a remote master is not changed either, because its executors lack the driver's classes. Call this after the
    session's start, because the class cannot be found earlier, and before the session's first query.
    """
    context: Any = spark.sparkContext
    configuration = context._jsc.hadoopConfiguration()
    if context._jsc.isLocal() and configuration.get(KEY) == HADOOPS:
        configuration.set(KEY, load_class(spark, Path(__file__).with_name("LocalFiles.java")).getName())
