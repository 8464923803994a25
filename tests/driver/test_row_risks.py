"""Shows the damage that Spark does under settings that put rows at risk, and the same run with a safe value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamkeeper.driver.queries import restore_confs
from streamkeeper.model.settings.row_risks import risk_of_conf
from streamkeeper.sources.known_sources import risk_of_option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

RETAIN = "spark.sql.streaming.minBatchesToRetain"


class Totals:
    """A streaming query that sums by key over JSON files, with its own checkpoint."""

    def __init__(self, spark: SparkSession, root: Path, **options: str) -> None:
        self.spark, self.root, self.options = spark, root, options
        self.rows: list[tuple[str, int]] = []
        self.fails = False
        (root / "in").mkdir(parents=True)

    def add(self, number: int) -> Path:
        path = self.root / "in" / f"{number}.json"
        path.write_text('{"k": "a", "x": 1}\n')
        return path

    def run(self) -> str:
        """Read all available files and return the error message, or an empty string on success."""
        rows = self.spark.readStream.schema("k string, x long").options(**self.options).json(str(self.root / "in"))
        writer = rows.groupBy("k").sum("x").writeStream.outputMode("complete").foreachBatch(self._write)
        writer = writer.option("checkpointLocation", str(self.root / "cp")).trigger(availableNow=True)
        query = writer.start()
        try:
            query.awaitTermination()
        except Exception as error:
            return str(error)
        return ""

    def _write(self, batch: DataFrame, number: int) -> None:
        self.rows = [tuple(row) for row in batch.collect()]
        if self.fails:
            raise RuntimeError("the sink is down")


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    before = dict(spark.conf.getAll)
    # Maintenance runs at each commit instead of once a minute.
    spark.conf.set("spark.sql.streaming.stateStore.unloadOnCommit", "true")
    spark.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "1")
    spark.conf.set("spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint", "0")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield spark
    restore_confs(spark, before)


@pytest.mark.parametrize(("retained", "goes_on"), [("1", False), ("2", True)], ids=["damage", "safe"])
def test_one_retained_batch_loses_the_state_that_a_failed_batch_needs(
    session: SparkSession, tmp_path: Path, retained: str, *, goes_on: bool
) -> None:
    """When the sink fails after the state was written, a checkpoint with one retained batch never starts again, and one
    with two retained batches continues.
    """
    session.conf.set(RETAIN, retained)
    totals = Totals(session, tmp_path)
    for number in range(4):
        totals.add(number)
        assert totals.run() == ""
    totals.add(4)
    totals.fails = True
    # Several times: if Spark's minutely maintenance of the state runs just then, a commit does no maintenance.
    failures = [totals.run() for _ in range(3)]
    assert "the sink is down" in failures[0]
    totals.fails = False
    assert (totals.run() == "") is goes_on
    assert bool(risk_of_conf(RETAIN, retained)) is not goes_on


@pytest.mark.parametrize(("option", "fails"), [("true", False), ("false", True)], ids=["damage", "safe"])
def test_a_file_that_cannot_be_read_is_skipped_without_an_error(
    session: SparkSession, tmp_path: Path, option: str, *, fails: bool
) -> None:
    """With ``ignoreCorruptFiles`` the rows of a truncated upload are missing from the output although the batch is
    committed; without the option the query fails.
    """
    totals = Totals(session, tmp_path, ignoreCorruptFiles=option)
    totals.add(0)
    totals.add(1).rename(tmp_path / "in" / "1.json.gz")
    assert bool(totals.run()) is fails
    assert fails or totals.rows == [("a", 1)]
    assert bool(risk_of_option("file", "ignoreCorruptFiles", option)) is not fails
