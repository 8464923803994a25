"""Ensures that only one writer can create each commit of a Delta table.

``CreateOnlyLogStore.java`` replaces Delta's own class for local disks, and ``CreateOnlyS3LogStore.java`` the one for
S3. Delta's class for HDFS needs no replacement.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkeeper.jvm.classes import load_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "spark.delta.logStore.{}.impl"
"""The setting for a URL scheme. It exists only for storages where a table can be written."""


def commit_create_only(spark: SparkSession, storage: str = "") -> None:
    """Make the JVM create each commit of a Delta table on a local disk with a hard link, and on S3 with a conditional
    PUT.

    ``storage``: the scheme of the installation's checkpoints. Tables in other storages than this one and a local disk
    are refused, because the JVM lacks their jars and settings.

    Nothing changes without Delta's jars. Call this before the session first uses a Delta table. Delta reads the setting
    from the conf of Spark's environment, which is not part of the job's confs.
    """
    jvm: Any = spark._jvm
    if "JavaClass" not in type(jvm.io.delta.storage.HDFSLogStore).__name__:
        return
    conf = jvm.org.apache.spark.SparkEnv.get().conf()
    conf.set(KEY.format("file"), _load(spark, "CreateOnlyLogStore"))
    if storage == "s3a":
        _load(spark, "CreateOnlyCheckpointFileManager")
        conf.set(KEY.format("s3a"), _load(spark, "CreateOnlyS3LogStore"))
    if storage == "hdfs":
        conf.set(KEY.format("hdfs"), "io.delta.storage.HDFSLogStore")


def _load(spark: SparkSession, name: str) -> str:
    return str(load_class(spark, Path(__file__).with_name(f"{name}.java")).getName())
