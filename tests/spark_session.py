"""Provides one Spark session for all tests that need a DataFrame, because starting one takes ten seconds."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamkeeper.driver.queries import restore_confs
from streamkeeper.driver.session import class_archive
from streamkeeper.jvm.delta_commits import commit_create_only
from streamkeeper.jvm.local_files import write_without_processes
from streamkeeper.registry.environments import installed_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]


_STARTED: list[tuple[SparkSession, dict[str, str]]] = []


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session with RocksDB state, as drivers have it; tests must stop the queries that they start."""
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT / "plugins"), str(ROOT)))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.driver.extraJavaOptions": class_archive(),
        "spark.jars": ",".join(installed_jars("")),
    }
    builder = SparkSession.builder.appName("tests")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    write_without_processes(session)
    commit_create_only(session)
    # It tells of each connection that it closes, the last ones after pytest has closed what it would tell them to.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    _STARTED.append((session, dict(session.conf.getAll)))
    yield session
    _STARTED.clear()
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def untouched_session() -> None:
    """Reset the shared session's confs to their initial values before each module."""
    for session, confs in _STARTED:
        restore_confs(session, confs)
