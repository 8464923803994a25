"""Provides a database of each kind for the tests of TableSink, and a session for those of DeltaSink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from harness.postgres_server import new_database
from streamkeeper.registry.environments import installed_jars
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
