"""Tests every kind of source against the requirements of handover, rebuild and restore, with real Spark, files and
Kafka.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.kafka_broker import KafkaBroker
from streamkeeper.checkpoints.file_sources import file_sources
from streamkeeper.checkpoints.layout import last_planned, read_offsets
from streamkeeper.checkpoints.reach import missing_files
from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.checkpoints.unread_files import UnreadFiles
from streamkeeper.inspection.source_readers import missing_after, reader_of
from streamkeeper.sources import known_sources
from streamkeeper.sources.contract import SourceLook
from tests.checkpoints.real_queries import CONF
from tests.contracts.source_contract import ROWS_A_BATCH, Batches, ObservedPlace, ObservedSourceContract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


class Streamed:
    """A source that Spark reads as a stream."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def read(self, session: SparkSession) -> DataFrame:
        """Return a stream of all rows from the beginning with ``ROWS_A_BATCH`` rows in each batch, as ``row
        string``.
        """
        raise NotImplementedError

    def tree(self, checkpoint: Path) -> Tree:
        return LocalTree(checkpoint)

    def take_away(self, checkpoint: Path) -> None:
        checkpoint.rename(checkpoint.with_name("gone"))

    def run(self, checkpoint: Path, *, fail_after: int | None = None) -> Batches:
        """Run a query on the source in a new session, and return the rows of each batch."""
        session = self._spark.newSession()
        for key, value in CONF.items():
            session.conf.set(key, value)
        found: Batches = {}

        def take(rows: DataFrame, batch: int) -> None:
            found[batch] = sorted(row.row for row in rows.collect())
            if batch == fail_after:
                raise InterruptedError("written, not committed")

        writer: Any = self.read(session).writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
        query = writer.trigger(availableNow=True).start()
        if fail_after is None:
            assert query.awaitTermination(180)
        else:
            with pytest.raises(Exception, match="written, not committed"):
                query.awaitTermination(180)
        return found


class Files(Streamed):
    """A directory with one text file for each row; the files' times are a second apart."""

    kind = "file"

    def __init__(self, spark: SparkSession, root: Path) -> None:
        super().__init__(spark)
        self._root, self._count = root / "in put é", 0
        self._root.mkdir()

    def put(self, rows: list[str]) -> None:
        for row in rows:
            path = self._root / f"{self._count}.txt"
            path.write_text(row)
            os.utime(path, (1_700_000_000 + self._count,) * 2)
            self._count += 1

    def read(self, session: SparkSession) -> DataFrame:
        reader = session.readStream.option("maxFilesPerTrigger", ROWS_A_BATCH)
        return reader.text(str(self._root)).selectExpr("value AS row")

    def lose(self, rows: int) -> None:
        for number in range(rows):
            (self._root / f"{number}.txt").unlink()

    def look(self, checkpoint: Path) -> SourceLook:
        tree = self.tree(checkpoint)
        (source,) = file_sources(tree, read_offsets(tree, last_planned(tree) or 0), None)
        found = UnreadFiles(str(self._root), {}).look(tree, source)
        return SourceLook() if found is None else SourceLook(lag_files=found.files)

    def missing(self, checkpoint: Path) -> str:
        return "; ".join(missing_files(self.tree(checkpoint))[0])


class Topic(Streamed):
    """A topic with one partition and one record for each row."""

    kind = "kafka"

    def __init__(self, spark: SparkSession, broker: KafkaBroker) -> None:
        super().__init__(spark)
        self._broker, self._name = broker, broker.create_topic(partitions=1)

    def put(self, rows: list[str]) -> None:
        self._broker.produce(self._name, [{"row": row} for row in rows], partition=0)

    def read(self, session: SparkSession) -> DataFrame:
        reader: Any = session.readStream.format("kafka").option("kafka.bootstrap.servers", self._broker.servers)
        reader = reader.options(subscribe=self._name, startingOffsets="earliest", maxOffsetsPerTrigger=ROWS_A_BATCH)
        return reader.load().selectExpr("get_json_object(CAST(value AS STRING), '$.row') AS row")  # type: ignore[no-any-return]

    def lose(self, rows: int) -> None:
        self._broker.delete_records(self._name, rows, partition=0)

    def look(self, checkpoint: Path) -> SourceLook:
        tree, reader = self.tree(checkpoint), reader_of(self.kind)
        assert reader is not None
        (end,) = read_offsets(tree, last_planned(tree) or 0).ends.values()
        return reader.watch(self._query(), {}, lambda _: None).look(0, end)

    def missing(self, checkpoint: Path) -> str:
        found = missing_after(self._query(), self.tree(checkpoint), None)
        return "; ".join(f"{source}: {gap.sentence}" for source, gaps in found.items() for gap in gaps)

    def _query(self) -> Any:
        return SimpleNamespace(name="q", df=self.read(self._spark))


class TestFiles(ObservedSourceContract):
    """A local directory keeps the source contract."""

    @pytest.fixture
    def place(self, spark: SparkSession, tmp_path: Path) -> ObservedPlace:
        return Files(spark, tmp_path)


@pytest.mark.kafka
class TestKafka(ObservedSourceContract):
    """A topic on a local broker keeps the source contract."""

    @pytest.fixture
    def place(self, spark: SparkSession, kafka: KafkaBroker) -> ObservedPlace:
        return Topic(spark, kafka)


def test_every_kind_of_source_that_promises_replay_has_a_suite() -> None:
    """Every kind of source that promises replay is covered by a suite of this module."""
    assert {kind.name for kind in known_sources.REPLAYED} == {Files.kind, Topic.kind}
