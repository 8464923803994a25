"""Ensures that only one writer can create each commit of a Delta table on a local disk: ``CreateOnlyLogStore.java``
replaces Delta's own class.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkeeper.jvm.classes import load_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "spark.delta.logStore.file.impl"


def commit_create_only(spark: SparkSession) -> None:
    """Make the JVM create each commit of a Delta table on a local disk with a hard link.

    Nothing changes without Delta's jars. Call this before the session first uses a Delta table. Delta reads the setting
    from the conf of Spark's environment, which is not part of the job's confs.
    """
    jvm: Any = spark._jvm
    if "JavaClass" in type(jvm.io.delta.storage.HDFSLogStore).__name__:
        source = Path(__file__).with_name("CreateOnlyLogStore.java")
        jvm.org.apache.spark.SparkEnv.get().conf().set(KEY, load_class(spark, source).getName())
