"""Tests an output that is replaced while a writer uses it, and one that continues after a loss that a person
accepted.
"""

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
from streamkeeper.sinks.table import TableSink
from streamkeeper.sinks.table_writer import TableWriter
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
    """Replace the database with the older copy, as a person who restores a backup does."""
    for beside in ("-wal", "-shm"):
        database.with_name(f"{database.name}{beside}").unlink(missing_ok=True)
    os.replace(database.with_name("older.db"), database)


def copy(database: Path) -> None:
    with sqlite3.connect(database) as source, sqlite3.connect(database.with_name("older.db")) as target:
        source.backup(target)


def rows(database: Path) -> list[tuple[str, int]]:
    with sqlite3.connect(database) as connection:
        return connection.execute("SELECT * FROM totals ORDER BY customer").fetchall()


def test_a_writer_refuses_an_older_copy_of_its_database(tmp_path: Path, spark: SparkSession, batch: DataFrame) -> None:
    """A writer refuses an older copy of its database by the newest batch in it, although the epoch in the copy is still
    the writer's.
    """
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
def test_an_older_copy_that_appears_during_a_write_is_reported_lost(
    tmp_path: Path, batch: DataFrame, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    """If an older copy replaces the output while Spark writes, the batch after the gap in its log counts as lost for
    this writer and the next.

    Negative control: if the newest number counts regardless of gaps, the loss is not noticed.
    """
    writer, spark_sink = file_writer(tmp_path / "out"), file._spark_sink
    if not checked:

        def any_number(folder: str) -> int | None:
            return max((int(each.name) for each in Path(folder, SINK_LOG).glob("[0-9]*")), default=None)

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


def test_without_the_newest_seen_batch_an_older_copy_continues_with_a_gap(
    tmp_path: Path, spark: SparkSession, batch: DataFrame
) -> None:
    """Negative control: a writer that does not remember the newest batch it saw continues on the older copy, and batch
    1 is in the checkpoint but not in the table.
    """
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
    """A batch is committed to the database file that is now at the path, not to the replaced one that a pooled
    connection keeps open.

    Negative control: without the check of the file, the batch is missing in the new file.
    """
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


def test_a_deleted_database_is_reported_as_lost_and_not_created_again(tmp_path: Path, batch: DataFrame) -> None:
    """A deleted database or a moved output directory is reported as lost, and neither the driver nor a worker creates
    it anew.
    """
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
    """A batch without rows is recorded by tables and files, so that the output's record always has the newest committed
    batch.
    """
    for writer in (table_writer(tmp_path / "w.db"), file_writer(tmp_path / "out")):
        writer.raise_fence()
        writer.write(batch.where("total > 9"), 0)
        assert writer.read_record().last == {"v0001": 0}


def test_a_table_continues_after_an_accepted_loss(warehouse: Warehouse, batch: DataFrame) -> None:
    """After an accepted loss a table is created with the lost batch in its record before the first write; that batch is
    skipped and the next one is written.
    """
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
def test_a_file_output_continues_after_an_accepted_loss(
    tmp_path: Path, spark: SparkSession, batch: DataFrame, held: int | None
) -> None:
    """After an accepted loss a file output keeps the batches that an older copy lists, and Spark reads and later
    compacts the continued log.
    """
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
