"""Provides a database of each kind for the tests of TableSink, and a session for those of DeltaSink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from harness.postgres_server import new_database
from harness.s3_server import S3Server
from streamkeeper.jvm.create_only import MANAGER, create_only, s3a_conf
from streamkeeper.jvm.delta_commits import commit_create_only
from streamkeeper.registry.environments import installed_jars
from tests.servers import skip_without_s3a
from tests.sinks.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Warehouse]:
    """A new, empty database, once in SQLite and once in PostgreSQL."""
    if request.param == "sqlite":
        made = Warehouse(f"sqlite:///{tmp_path / 'warehouse.db'}")
    else:
        database = new_database(request.getfixturevalue("postgres_server"), f"test_{uuid4().hex[:12]}")
        made = Warehouse(database.replace("postgresql://", "postgresql+psycopg://"))
    yield made
    made.close()


@pytest.fixture
def delta_spark(spark: SparkSession) -> SparkSession:
    """A Spark session whose JVM has Delta's jars."""
    if not any("delta-spark" in jar for jar in installed_jars("")):
        pytest.skip("no Delta jars (make connectors)")
    return spark


@pytest.fixture
def spark_on_s3(spark: SparkSession, s3_server: S3Server) -> SparkSession:
    """A Spark session whose JVM has s3a's jars, and reaches the S3 server as a driver does."""
    skip_without_s3a()
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in installed_jars("", "s3a://any/place"):
        loader.addURL(jvm.java.io.File(jar).toURI().toURL())
    environment = s3_server.environment
    keys = {
        "spark.hadoop.fs.s3a.access.key": environment["AWS_ACCESS_KEY_ID"],
        "spark.hadoop.fs.s3a.secret.key": environment["AWS_SECRET_ACCESS_KEY"],
    }
    for name, value in (s3a_conf(environment) | keys).items():
        context._jsc.hadoopConfiguration().set(name.removeprefix("spark.hadoop."), value)
    return spark


@pytest.fixture
def delta_spark_on_s3(delta_spark: SparkSession, spark_on_s3: SparkSession) -> SparkSession:
    """The same session, which has Delta's jars as well and creates each commit of a table once."""
    commit_create_only(spark_on_s3, "s3a")
    return spark_on_s3


@pytest.fixture
def files_spark_on_s3(spark_on_s3: SparkSession) -> Iterator[SparkSession]:
    """The same session, which creates each entry of a sink log once, until the test has ended."""
    context: Any = spark_on_s3.sparkContext
    create_only(spark_on_s3)
    yield spark_on_s3
    context._jsc.hadoopConfiguration().unset(MANAGER)
