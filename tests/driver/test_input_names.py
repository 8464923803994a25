"""Tests of input files whose names Spark 4.2.0 treats as patterns: the batch is stopped before it reads other files
twice.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.open_input import doubling_files
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import InputGone, InputUnreadable
from streamkeeper.jvm.batch_files import check_batch, check_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

NAMES = ["[ab].csv", "*.csv", "?.csv", "{a,b}.csv", "a\\.csv", "x].csv"]


Check = Callable[[Any, int], None]


def unchecked(batch: Any, number: int) -> None:
    """Check nothing."""


class Read:
    """One batch over a folder's files, each with one row that is its own name."""

    def __init__(self, spark: SparkSession, root: Path, names: list[str], *, pattern: str = "", check: Check) -> None:
        self.checkpoint = root / "checkpoint"
        self.rows: list[str] = []
        self.error: Exception | None = None
        self.folder = root / "in"
        for name in names:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(f'"{name}"\n')

        def take(batch: Any, number: int) -> None:
            try:
                check(batch, number)
                self.rows += sorted(row.name for row in batch.collect())
            except Exception as error:
                self.error = error
                raise

        reader: Any = spark.readStream.schema("name string").option("escape", "~").csv(pattern or str(self.folder))
        running = reader.writeStream.option("checkpointLocation", str(self.checkpoint)).foreachBatch(take)
        started = running.trigger(availableNow=True).start()
        try:
            started.awaitTermination(120)
        except Exception as error:
            self.error = self.error or error


def read_without_a_planned_file(spark: SparkSession, root: Path, folder: str, check: Check) -> Read:
    """Plan a batch, delete one of its files, and run the same batch."""

    def fail(batch: Any, number: int) -> None:
        raise RuntimeError("the output is away")

    Read(spark, root, [f"{folder}a.csv", f"{folder}b c.csv"], check=fail)
    (root / "in" / folder / "b c.csv").unlink()
    return Read(spark, root, [], check=check)


@pytest.mark.parametrize("folder", ["", "k=1/"])
def test_a_batch_that_lacks_a_planned_file_is_stopped_by_name(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    """A batch whose planned file is missing, also in a partition directory, is stopped at the gate with the file's
    name; Spark itself skips the file.
    """
    read = read_without_a_planned_file(spark, tmp_path, folder, check_batch)
    assert isinstance(read.error, InputGone)
    assert f"1 of its files are missing, such as file:{read.folder}/{folder}b c.csv" in read.error.message
    assert (read.rows, last_committed(LocalTree(read.checkpoint))) == ([], None)


def test_without_the_check_spark_commits_the_batch_without_it(spark: SparkSession, tmp_path: Path) -> None:
    """Negative control: without the check of missing files, Spark commits the batch with one row instead of two."""
    read = read_without_a_planned_file(spark, tmp_path, "", check_files)
    assert (read.error, read.rows, last_committed(LocalTree(read.checkpoint))) == (None, ["a.csv"], 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_that_would_double_rows_is_stopped_by_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """A batch with a file whose name contains a pattern character is stopped with the file's name, whether or not the
    pattern matches other files.
    """
    read = Read(spark, tmp_path, ["a.csv", "b.csv", name], check=check_batch)
    assert isinstance(read.error, InputUnreadable)
    assert f"{read.folder}/{name}" in read.error.message
    assert read.rows == []
    assert doubling_files(LocalTree(read.checkpoint), 0) == [f"{read.folder}/{name}"]


def test_without_the_check_spark_reads_the_other_files_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Negative control: without the check, Spark reads five rows from three files with one row each."""
    read = Read(spark, tmp_path, ["a.csv", "b.csv", "[ab].csv"], check=unchecked)
    assert read.error is None
    assert read.rows == ["[ab].csv", "a.csv", "a.csv", "b.csv", "b.csv"]


def test_a_batch_in_a_directory_with_a_pattern_name_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    """A directory whose name is a pattern also stops the batch, although its files have plain names, because the whole
    path is the pattern.
    """
    folder = str(tmp_path / "in" / "\\[1\\]")
    read = Read(spark, tmp_path, ["[1]/a.csv", "[1]/b.csv"], pattern=folder, check=check_batch)
    assert isinstance(read.error, InputUnreadable)
    assert read.rows == []


@pytest.mark.parametrize(
    "names", [["[ab].csv"], ["k=1/a.csv", "k=1/[ab].csv", "k=2/b.csv"], ["a b.csv", "a%20b.csv", "(a)^~$,'#.csv"]]
)
def test_a_batch_whose_files_are_read_once_is_not_stopped(
    spark: SparkSession, tmp_path: Path, names: list[str]
) -> None:
    """A batch is not stopped for a file that is alone in it, for files in partition directories, or for characters that
    form no pattern.
    """
    read = Read(spark, tmp_path, names, check=check_batch)
    assert (read.error, len(read.rows)) == (None, len(names))
    assert doubling_files(LocalTree(read.checkpoint), 0) == []
