"""An output that is replaced under its writer, and one that goes on after a loss that a person has accepted."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.errors import OutputLost
from streamkeeper.sinks import databases, file
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.file import FileSink, FileWriter, read_serving
from streamkeeper.sinks.sink_log import SINK_LOG
from streamkeeper.sinks.table import TableSink, TableWriter
from tests.sinks.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SCHEMA = "customer string, total long"


@pytest.fixture
def batch(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", 1)], SCHEMA)


def table_writer(database: Path, epoch: int = 1) -> TableWriter:
    sink = TableSink(f"sqlite:///{database}", table="totals", key=["customer"])
    return sink.open(SinkContext(job="sales", query="totals", version="v0001", epoch=epoch, output_mode="update"))


def file_writer(root: Path, epoch: int = 1) -> FileWriter:
    return FileSink(str(root)).open(SinkContext(job="sales", query="totals", version="v0001", epoch=epoch))


def put_back(database: Path) -> None:
    """An older copy in the place of the database, as a person restores a backup."""
    for beside in ("-wal", "-shm"):
        database.with_name(f"{database.name}{beside}").unlink(missing_ok=True)
    os.replace(database.with_name("older.db"), database)


def copy(database: Path) -> None:
    with sqlite3.connect(database) as source, sqlite3.connect(database.with_name("older.db")) as target:
        source.backup(target)


def rows(database: Path) -> list[tuple[str, int]]:
    with sqlite3.connect(database) as connection:
        return connection.execute("SELECT * FROM totals ORDER BY customer").fetchall()


def test_an_older_copy_under_a_writer_gets_no_batch(tmp_path: Path, spark: SparkSession, batch: DataFrame) -> None:
    """The epoch in it is still the writer's; the batch that it held last tells."""
    database = tmp_path / "w.db"
    writer = table_writer(database)
    writer.raise_fence()
    writer.write(batch, 0)
    copy(database)
    writer.write(spark.createDataFrame([("b", 2)], SCHEMA), 1)
    put_back(database)
    with pytest.raises(OutputLost, match="has seen batch 1 of v0001 in the output, but now finds only batches up to 0"):
        writer.write(spark.createDataFrame([("c", 3)], SCHEMA), 2)
    assert rows(database) == [("a", 1)]


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "control"])
def test_an_older_copy_that_comes_while_spark_writes_is_a_lost_output(
    tmp_path: Path, batch: DataFrame, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    """Spark lists the batch after a gap in the older log; neither this writer nor the next one takes that for whole."""
    writer, spark_sink = file_writer(tmp_path / "out"), file._spark_sink
    if not checked:
        any_number = lambda folder: max((int(each.name) for each in (folder / SINK_LOG).glob("[0-9]*")), default=None)  # noqa: E731
        monkeypatch.setattr(file, "newest_batch", any_number)
    writer.raise_fence()
    writer.write(batch, 0)
    shutil.copytree(tmp_path / "out", tmp_path / "older")
    writer.write(batch, 1)

    def sink_of(*given: Any) -> SimpleNamespace:
        def add(number: int, rows: Any) -> None:
            shutil.rmtree(tmp_path / "out")
            shutil.move(tmp_path / "older", tmp_path / "out")
            real.addBatch(number, rows)

        real = spark_sink(*given)
        return SimpleNamespace(addBatch=add)

    monkeypatch.setattr(file, "_spark_sink", sink_of)
    with nullcontext() if not checked else pytest.raises(OutputLost, match="now finds only batches up to 0"):
        writer.write(batch, 2)
    assert file_writer(tmp_path / "out").last_batch() == (0 if checked else 2)


def test_without_that_memory_the_older_copy_goes_on_with_a_gap(
    tmp_path: Path, spark: SparkSession, batch: DataFrame
) -> None:
    """The negative control: batch 1 is in the checkpoint, and nowhere in the table."""
    database = tmp_path / "w.db"
    writer = table_writer(database)
    writer.raise_fence()
    writer.write(batch, 0)
    copy(database)
    writer.write(spark.createDataFrame([("b", 2)], SCHEMA), 1)
    put_back(database)
    writer._held = None
    writer.write(spark.createDataFrame([("c", 3)], SCHEMA), 2)
    assert rows(database) == [("a", 1), ("c", 3)]


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "control"])
def test_no_connection_writes_to_a_file_that_was_replaced(
    tmp_path: Path, batch: DataFrame, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    """A pooled connection keeps the old file open: a batch would be committed there, and its rows staged in the new."""
    if not checked:
        monkeypatch.setattr(databases, "_must_be_its_file", lambda *_: None)
    database = tmp_path / "w.db"
    writer = table_writer(database)
    writer.raise_fence()
    writer.write(batch, 0)
    copy(database)
    put_back(database)
    writer.write(batch, 1)
    with sqlite3.connect(database) as connection:
        (held,) = connection.execute("SELECT batch_id FROM streamkeeper_outputs").fetchone()
    assert (held == 1) is checked


def test_a_database_that_was_deleted_under_its_writer_is_not_made_anew(tmp_path: Path, batch: DataFrame) -> None:
    """Neither by the driver nor by a worker; files of a directory that was moved away neither."""
    for writer in (table_writer(tmp_path / "w.db"), file_writer(tmp_path / "out")):
        writer.raise_fence()
        writer.write(batch, 0)
        shutil.move(tmp_path / "out", tmp_path / "gone") if isinstance(writer, FileWriter) else None
        (tmp_path / "w.db").unlink(missing_ok=True)
        with pytest.raises(OutputLost, match="has seen batch 0 of v0001 in the output, but now finds no batch"):
            writer.write(batch, 1)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "w.db").exists()


def test_a_batch_without_rows_is_on_record(tmp_path: Path, batch: DataFrame) -> None:
    """So that the newest committed batch is in the output's own record, whatever it held."""
    for writer in (table_writer(tmp_path / "w.db"), file_writer(tmp_path / "out")):
        writer.raise_fence()
        writer.write(batch.where("total > 9"), 0)
        assert writer.read_record().last == {"v0001": 0}


def test_a_table_goes_on_after_an_accepted_loss(warehouse: Warehouse, batch: DataFrame) -> None:
    """Its record names the batch from before the first write on, and the table is there."""
    writer = warehouse.writer("v0001", 1)
    assert writer.read_record().gone
    writer.raise_fence()
    writer.begin_after(batch, 57)
    assert (writer.read_record().gone, writer.read_record().last) == ("", {"v0001": 57})
    writer.write(batch, 57)
    assert warehouse.rows() == []
    writer.write(batch, 58)
    assert warehouse.rows() == [("a", 1)]


@pytest.mark.parametrize("held", [None, 3, 12])
def test_files_go_on_after_an_accepted_loss(
    tmp_path: Path, spark: SparkSession, batch: DataFrame, held: int | None
) -> None:
    """What an older copy lists stays listed, and Spark reads the log and compacts it later."""
    writer = file_writer(tmp_path)
    writer.raise_fence()
    for number in range(0 if held is None else held + 1):
        writer.write(spark.createDataFrame([("old", number)], SCHEMA), number)
    writer.begin_after(batch, 27)
    assert writer.read_record().last == {"v0001": 27}
    for number in (28, 29, 30):
        writer.write(batch, number)
    found = read_serving(spark, str(tmp_path)).collect()
    kept = [("old", number) for number in range(0 if held is None else held + 1)]
    assert sorted(map(tuple, found)) == sorted([*kept, *[("a", 1)] * 3])
