"""Checkpoints on S3 that one writer can write: ``CreateOnlyCheckpointFileManager.java`` in the place of Spark's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from streamkeeper.errors import JobUnusable
from streamkeeper.jvm.classes import load_class, send_class
from streamkeeper.locations import scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
OURS = "streamkeeper.jvm.CreateOnlyCheckpointFileManager"


def create_only(spark: SparkSession) -> None:
    """From now on the session's checkpoints on s3a have one winner for each file, and one PUT.

    On other file systems nothing changes. Called before the session's first query. Set beside what a job can set: its
    confs are part of its description.
    """
    source = Path(__file__).with_name("CreateOnlyCheckpointFileManager.java")
    context: Any = spark.sparkContext
    context._jsc.hadoopConfiguration().set(MANAGER, load_class(spark, source).getName())
    if not context._jsc.isLocal():
        # Executors write state files through it.
        send_class(spark, source)


def must_be_create_only(spark: SparkSession, checkpoint: str) -> None:
    """Raise JobUnusable for a checkpoint on S3, as Spark is given its place, in a session that writes it otherwise.

    A version keeps the root that it was made below, whatever the installation's setting is by now.
    """
    context: Any = spark.sparkContext
    if scheme_of(checkpoint) == "s3a" and context._jsc.hadoopConfiguration().get(MANAGER) != OURS:
        raise JobUnusable(
            f"checkpoint {checkpoint} is on S3, but this installation's checkpoints are not: two drivers could both"
            " write it",
            hint="set STREAMKEEPER_CHECKPOINTS to the root on S3, or deploy with --strategy rebuild",
        )


def s3a_conf(environ: Mapping[str, str]) -> dict[str, str]:
    """Where s3a finds the server that boto3 finds by AWS's own variables; its credentials it finds by itself."""
    conf = {}
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        conf["spark.hadoop.fs.s3a.endpoint"] = endpoint
        conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
        if urlsplit(endpoint).scheme == "http":
            conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] = "false"
    if region := environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION"):
        conf["spark.hadoop.fs.s3a.endpoint.region"] = region
    return conf
