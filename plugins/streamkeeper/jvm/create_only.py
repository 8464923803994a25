"""Ensures that only one writer can create each checkpoint file on S3: ``CreateOnlyCheckpointFileManager.java`` replaces
Spark's own manager.
"""

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
    """Make the session create each checkpoint file on s3a with one PUT, so that only one of several writers succeeds.

    Other file systems are not affected. Call this before the session's first query. The setting is stored in Hadoop's
    configuration, because in the job's confs it would become part of the job's description.
    """
    source = Path(__file__).with_name("CreateOnlyCheckpointFileManager.java")
    context: Any = spark.sparkContext
    context._jsc.hadoopConfiguration().set(MANAGER, load_class(spark, source).getName())
    if not context._jsc.isLocal():
        # Executors write state files through this class.
        send_class(spark, source)


def must_be_create_only(spark: SparkSession, checkpoint: str) -> None:
    """Raise JobUnusable for a checkpoint on S3 in a session that ``create_only`` has not prepared.

    ``checkpoint``: the location in Spark's form. It may be on S3 although the installation's present root is not,
    because a version keeps the root under which it was created.
    """
    context: Any = spark.sparkContext
    if scheme_of(checkpoint) == "s3a" and context._jsc.hadoopConfiguration().get(MANAGER) != OURS:
        raise JobUnusable(
            f"checkpoint {checkpoint} is on S3, but STREAMKEEPER_CHECKPOINTS is not. With this setting, two drivers"
            " could write to this checkpoint at the same time",
            hint="set STREAMKEEPER_CHECKPOINTS to the S3 root of this checkpoint, or deploy with `--strategy rebuild`",
        )


def s3a_conf(environ: Mapping[str, str]) -> dict[str, str]:
    """Return s3a's settings for the server that AWS's variables select for boto3. The settings contain no credentials,
    because s3a finds them itself.
    """
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
