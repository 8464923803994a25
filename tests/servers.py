"""Provides real servers for the tests marked ``s3``, ``hdfs``, ``postgres`` and ``kafka``: each is started once per
session and then stopped.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import hdfs_server, kafka_broker, postgres_server, s3_server
from harness.hadoop_process import has_jars
from harness.hdfs_server import HdfsServer
from harness.kafka_broker import KafkaBroker
from harness.kubernetes_node import has_programs
from harness.s3_server import FIRST_BUCKET, S3Server

HDFS_USER = "streams"
"""A Hadoop user that differs from the one that all processes run as."""


def skip_without_kubernetes() -> None:
    """Skip the test, with the reason, on a machine that cannot run a Kubernetes node."""
    if not has_programs():
        pytest.skip("no Kubernetes programs, or not root (make kubernetes)")


def skip_without_s3a() -> None:
    """Skip the test, with the reason, without an S3 server or without the JVM's S3 client."""
    _skip_without_s3()
    if not (Path(sys.prefix) / "connectors" / "s3a").is_dir():
        pytest.skip("no s3a jars (make connectors)")


def _skip_without_s3() -> None:
    try:
        s3_server.find_program()
    except SystemExit as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session", name="s3_server")
def _s3_server() -> Iterator[S3Server]:
    """A running S3 server; the test is skipped, with the reason, if its program is not installed."""
    _skip_without_s3()
    home = Path(tempfile.mkdtemp(prefix="streamkeeper-s3-"))
    with s3_server.s3_server(home, volume_mb=64, volumes=40) as running:
        yield running


@pytest.fixture
def s3_url(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh ``s3://streamkeeper/<prefix>``, with the environment variables that reach it set."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{FIRST_BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture(scope="session", name="hdfs_server")
def _hdfs_server() -> Iterator[HdfsServer]:
    """A running NameNode and DataNode; the test is skipped, with the reason, if their jars are missing."""
    if not has_jars():
        pytest.skip("no HDFS jars (make connectors)")
    with hdfs_server.hdfs_server(Path(tempfile.mkdtemp(prefix="streamkeeper-hdfs-"))) as running:
        yield running


@pytest.fixture
def hdfs_url(hdfs_server: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh ``hdfs://127.0.0.1:<port>/<prefix>``, with the environment variables that reach it set."""
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    for name, value in hdfs_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"{hdfs_server.url}/{uuid.uuid4().hex}"


@pytest.fixture(scope="session", name="postgres_server")
def _postgres_server() -> Iterator[str]:
    """The URL ``postgresql://streamkeeper@127.0.0.1:<port>/postgres`` of a running server; the test is skipped, with
    the reason, if PostgreSQL is not installed.
    """
    programs = postgres_server.find_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server programs (Debian: apt-get install postgresql)")
    with postgres_server.postgres_server(Path(tempfile.mkdtemp(prefix="streamkeeper-postgres-")), programs) as url:
        yield url


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A running broker without topics; the test is skipped, with the reason, if its jars are missing."""
    if not kafka_broker.has_jars():
        pytest.skip("no Kafka jars (make connectors)")
    home = Path(tempfile.mkdtemp(prefix="streamkeeper-kafka-"))
    try:
        with kafka_broker.running_broker(home) as broker:
            yield broker
    finally:
        shutil.rmtree(home, ignore_errors=True)
