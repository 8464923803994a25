"""Every kind of sink against its capabilities, with real Spark, files and tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamkeeper import FileSink, ForeachBatch, TableSink, read_serving
from tests.contracts.sink_contract import SCHEMA, Place, SinkContract
from tests.sinks.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Batches:
    """What a query gives a sink."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def batch(self, row: tuple[str, int]) -> DataFrame:
        return self._spark.createDataFrame([row], SCHEMA)


class Table(Batches):
    """In a SQLite file."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        super().__init__(spark)
        self.where = f"sqlite:///{root}/warehouse.db"
        self.sink = TableSink(self.where, table="totals", key=["customer"])

    def rows(self) -> list[tuple[str, int]]:
        """By the database's own client."""
        reader = Warehouse(self.where)
        try:
            return [(name, total) for name, total in reader.rows()]
        finally:
            reader.close()


class Files(Batches):
    """Parquet files, read as the README says."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        super().__init__(spark)
        self.where = str(root / "out")
        self.sink = FileSink(self.where)

    def rows(self) -> list[tuple[str, int]]:
        """By the sink's log."""
        return sorted((row.customer, row.total) for row in read_serving(self._spark, self.where).collect())


class Function(Batches):
    """One that keeps what it is given."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self.where, self._kept = "", list[tuple[str, int]]()
        self.sink = ForeachBatch(lambda batch, _: self._kept.extend(map(tuple, batch.collect())))

    def rows(self) -> list[tuple[str, int]]:
        """All of it."""
        return sorted(self._kept)


class TestTable(SinkContract):
    """SQLite; what PostgreSQL does otherwise is in ``test_table_postgres``."""

    @pytest.fixture
    def place(self, tmp_path: Path, spark: SparkSession) -> Place:
        return Table(tmp_path, spark)


class TestFiles(SinkContract):
    """A local directory."""

    @pytest.fixture
    def place(self, tmp_path: Path, spark: SparkSession) -> Place:
        return Files(tmp_path, spark)


class TestFunction(SinkContract):
    """The author's own."""

    @pytest.fixture
    def place(self, spark: SparkSession) -> Place:
        return Function(spark)
