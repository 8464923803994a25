"""Compares what Spark does with files older than ``maxFileAge`` with the number of such files that is reported."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.checkpoints.file_sources import file_sources
from streamkeeper.checkpoints.layout import last_committed, read_offsets
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.checkpoints.unread_files import Unread, UnreadFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DAY_S = 86_400


class Feed:
    """A directory of files with 10 rows each, and a query that copies it."""

    def __init__(self, spark: SparkSession, root: Path, **options: object) -> None:
        self._spark, self._root, self._options = spark, root, options
        self.directory = root / "in"
        self.directory.mkdir(parents=True)
        self.rows = 0

    def put(self, name: str, *, age_s: float) -> None:
        path = self.directory / name
        path.write_text("1\n" * 10)
        os.utime(path, (time.time() - age_s,) * 2)

    def run(self) -> int:
        """Run the query anew until all input that Spark accepts is read, and return the number of rows."""
        reader = self._spark.readStream.schema("x int").options(**self._options)
        rows: list[int] = []
        writer: Any = reader.csv(str(self.directory)).writeStream
        running = (
            writer.foreachBatch(lambda batch, _: rows.append(batch.count()))
            .option("checkpointLocation", str(self._root / "cp"))
            .trigger(availableNow=True)
            .start()
        )
        assert running.awaitTermination(120)
        return sum(rows)

    def counted(self) -> tuple[int, int]:
        """Return the number of files that wait and the number of files that are too old."""
        tree = LocalTree(self._root / "cp")
        batch = last_committed(tree)
        assert batch is not None
        (source,) = file_sources(tree, read_offsets(tree, batch), None)
        options = {key.lower(): str(value).lower() for key, value in self._options.items()}
        found = UnreadFiles(f"FileStreamSource[file:{self.directory}]", options).look(tree, source)
        assert isinstance(found, Unread)
        return found.files, found.too_old


@pytest.mark.parametrize(
    ("options", "late_s", "read"),
    [
        ({}, 8 * DAY_S, False),
        ({}, 6 * DAY_S, True),
        ({"maxFileAge": "1h"}, 2 * 3600, False),
        ({"latestFirst": True}, 8 * DAY_S, False),
        ({"latestFirst": True, "maxFilesPerTrigger": 9}, 80 * DAY_S, True),
    ],
)
def test_files_counted_as_too_old_are_exactly_those_spark_does_not_read(
    spark: SparkSession, tmp_path: Path, options: dict[str, object], late_s: float, read: bool
) -> None:
    """Files that are counted as too old are exactly those that Spark does not read, for several values of
    ``maxFileAge`` and ``latestFirst``.
    """
    feed = Feed(spark, tmp_path, **options)
    for number in range(2):
        feed.put(f"first{number}.csv", age_s=100 + number)
    assert feed.run() == 20
    for number in range(2):
        feed.put(f"second{number}.csv", age_s=10 + number)
        feed.put(f"late{number}.csv", age_s=late_s)
    assert feed.counted() == ((4, 0) if read else (2, 2))
    assert feed.run() == (40 if read else 20)
    assert feed.counted() == ((0, 0) if read else (0, 2))


def test_spark_reads_a_touched_file_again_even_if_it_read_it_before(spark: SparkSession, tmp_path: Path) -> None:
    """Touching a skipped file makes Spark read it, but touching a file that Spark read long ago makes it read that file
    twice, so the runbook touches only listed files; a new query reads all files.
    """
    feed = Feed(spark, tmp_path)
    feed.put("read-long-ago.csv", age_s=20 * DAY_S)
    assert feed.run() == 10
    feed.put("new.csv", age_s=1)
    assert feed.run() == 10
    feed.put("late.csv", age_s=8 * DAY_S)
    assert (feed.counted(), feed.run()) == ((0, 1), 0)
    os.utime(feed.directory / "late.csv")
    assert (feed.counted(), feed.run(), feed.counted()) == ((1, 0), 10, (0, 0))
    os.utime(feed.directory / "read-long-ago.csv")
    assert feed.run() == 10
    rebuilt = Feed(spark, tmp_path / "rebuilt")
    rebuilt.directory.rmdir()
    rebuilt.directory = feed.directory
    os.utime(feed.directory / "late.csv", (time.time() - 8 * DAY_S,) * 2)
    assert rebuilt.run() == 30
