"""Tests FileSink through Spark's own sink log: each batch is written once, and a create-only epoch log fences old
writers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamkeeper.errors import Fenced, InvalidInput, OperationRefused
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.file import FileSink, FileWriter, newest_batch, read_serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SCHEMA = "event_id string, amount long"


def writer_of(path: Path, epoch: int, *, installation: str = "", **options: object) -> FileWriter:
    context = SinkContext(job="copy", query="events", version="v0001", epoch=epoch, installation=installation)
    return FileSink(str(path), **options).open(context)  # type: ignore[arg-type]


def ids(spark: SparkSession, path: Path) -> list[str]:
    return sorted(row.event_id for row in read_serving(spark, str(path)).collect())


@pytest.mark.parametrize("file_format", ["parquet", "json", "csv", "orc"])
def test_every_format_is_written_once_and_read_through_the_log(
    spark: SparkSession, tmp_path: Path, file_format: str
) -> None:
    """In every format, a replayed batch adds nothing, and a reader sees exactly the batches of the log."""
    writer = writer_of(tmp_path, 1, format=file_format)
    writer.raise_fence()
    assert writer.last_batch() is None
    writer.write(spark.createDataFrame([("e1", 1), ("e2", 2)], SCHEMA), 0)
    writer.write(spark.createDataFrame([("e3", 3)], SCHEMA), 1)
    writer.write(spark.createDataFrame([("e3", 3)], SCHEMA), 1)
    assert writer.last_batch() == 1
    rows = read_serving(spark, str(tmp_path)).collect()
    assert sorted((row.event_id, row.amount) for row in rows) == [("e1", 1), ("e2", 2), ("e3", 3)]


def test_partition_columns_make_folders(spark: SparkSession, tmp_path: Path) -> None:
    """The columns of ``partition_by`` become folder names and are read back as columns."""
    writer = writer_of(tmp_path, 1, partition_by=["amount"])
    writer.raise_fence()
    writer.write(spark.createDataFrame([("e1", 1), ("e2", 2)], SCHEMA), 0)
    assert (tmp_path / "v0001" / "amount=1").is_dir()
    assert ids(spark, tmp_path) == ["e1", "e2"]


def test_superseded_writer_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """A newer epoch in the output's log permanently prevents the older writer from writing."""
    old, new = writer_of(tmp_path, 1), writer_of(tmp_path, 2)
    old.raise_fence()
    old.write(spark.createDataFrame([("e1", 1)], SCHEMA), 0)
    new.raise_fence()
    with pytest.raises(Fenced, match="superseded by epoch 2"):
        old.write(spark.createDataFrame([("e2", 2)], SCHEMA), 1)
    with pytest.raises(Fenced):
        old.raise_fence()
    assert ids(spark, tmp_path) == ["e1"]


def test_without_the_fence_a_superseded_writer_does_write(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: with the fence check removed, a superseded writer adds a batch."""
    old, new = writer_of(tmp_path, 1), writer_of(tmp_path, 2)
    old.raise_fence()
    new.raise_fence()
    monkeypatch.setattr(FileWriter, "check_fence", lambda _: None)
    old.write(spark.createDataFrame([("e2", 2)], SCHEMA), 0)
    assert ids(spark, tmp_path) == ["e2"]


def test_output_that_does_not_exist_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Reading an output before its first deploy or before its first batch is refused with that reason."""
    with pytest.raises(InvalidInput, match="not the output of a FileSink"):
        read_serving(spark, str(tmp_path))
    writer_of(tmp_path, 1).raise_fence()
    with pytest.raises(InvalidInput, match="has no batch yet"):
        read_serving(spark, str(tmp_path))


def test_output_of_another_query_is_refused(tmp_path: Path) -> None:
    """A query cannot claim a directory that a different query writes, and the error names that query."""
    writer_of(tmp_path, 1).raise_fence()
    other = FileSink(str(tmp_path)).open(SinkContext(job="other", query="events", version="v0001", epoch=2))
    with pytest.raises(InvalidInput, match="written by copy/events"):
        other.raise_fence()


def test_unknown_partition_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A rehearsal names a partition column that the batch lacks before Spark writes anything."""
    with pytest.raises(InvalidInput, match="no column day"):
        FileSink(str(tmp_path), partition_by=["day"]).rehearse(spark.createDataFrame([("e", 1)], SCHEMA))


def test_the_newest_batch_may_be_the_number_of_a_compacted_log_file(tmp_path: Path) -> None:
    """The newest batch may be the number of a compacted log file; temporary and checksum files are ignored."""
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name in ("8", "9.compact", ".10.0b3f.tmp", ".9.compact.crc"):
        (log / name).touch()
    assert newest_batch(str(tmp_path)) == 9


def test_another_installation_claims_no_epoch(spark: SparkSession, tmp_path: Path) -> None:
    """A copied installation with the same job and query is refused before it claims an epoch.

    Negative control: without a recorded installation, as in older outputs, the copy fences out the original writer.
    """
    first = writer_of(tmp_path / "known", 1, installation="a1")
    first.raise_fence()
    with pytest.raises(OperationRefused, match="is written by the installation a1"):
        writer_of(tmp_path / "known", 2, installation="b2").raise_fence()
    first.write(spark.createDataFrame([("e1", 1)], SCHEMA), 0)
    assert ids(spark, tmp_path / "known") == ["e1"]
    older = writer_of(tmp_path / "older", 1)
    older.raise_fence()
    writer_of(tmp_path / "older", 2, installation="b2").raise_fence()
    with pytest.raises(Fenced):
        older.write(spark.createDataFrame([("e1", 1)], SCHEMA), 0)
