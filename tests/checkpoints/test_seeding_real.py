"""Seeded checkpoint versions with which Spark continues: no row of the sources is lost or read twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.state_layouts import LAYOUTS
from streamkeeper.checkpoints.layout import last_committed, open_batch
from streamkeeper.checkpoints.log_codec import SEEN_BEFORE
from streamkeeper.checkpoints.seeding import REBASED, seed, seed_start
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.file import FileSink, FileWriter
from tests.checkpoints.real_queries import CONF, ONE_PARTITION, Inputs, Streams

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

NEW_ID = "6d2a5f52-3c0a-4a50-9c8e-0d3b6b5c1f11"
NAMED = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
}
Files = dict[int, list[int]]


def one(streams: Streams) -> Any:
    return streams.left


def both(streams: Streams) -> Any:
    return streams.left.union(streams.right.selectExpr("k", "v + 1000 AS v", "at"))


def twice(streams: Streams) -> Any:
    rows = streams.left
    return rows.union(rows.selectExpr("k", "v + 1000 AS v", "at"))


def deduplicated(streams: Streams) -> Any:
    return streams.left.dropDuplicates(["v"])


def ended_with(query: StreamingQuery) -> str:
    """Wait for a query and return its error, or an empty text."""
    try:
        finished = query.awaitTermination(180)
    except Exception as error:
        return str(error)
    assert finished, "the query does not end"
    return ""


class Query:
    """A query over the inputs; each start reads everything available, and a batch's files are given by their
    numbers.
    """

    def __init__(
        self,
        spark: SparkSession,
        inputs: Inputs,
        frame: Callable[[Streams], Any] = one,
        *,
        named: bool = False,
        **conf: str,
    ) -> None:
        self._session = spark.newSession()
        for key, value in {**CONF, **ONE_PARTITION, **LAYOUTS["format-2"], **(NAMED if named else {}), **conf}.items():
            self._session.conf.set(key, value)
        self._frame = frame(Streams(self._session, inputs, named=named))

    def run(
        self,
        checkpoint: Path,
        *,
        before: int | None = None,
        after: int | None = None,
        writer: FileWriter | None = None,
    ) -> Files:
        """Run the query and return batch -> files; it can be stopped before or after a batch is written, with its plan
        but without its commit.
        """
        found: Files = {}

        def take(rows: Any, batch: int) -> None:
            if batch == before:
                raise InterruptedError("before it was written")
            found[batch] = sorted({row.v // 10 for row in rows.collect()})
            if writer is not None:
                writer.write(rows, batch)
            if batch == after:
                raise InterruptedError("after it was written")

        stream = self._frame.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
        query = stream.trigger(availableNow=True).start()
        failure = ended_with(query)
        if failure and "was written" not in failure:
            raise RuntimeError(failure)
        assert open_batch(LocalTree(checkpoint)) == (before if before is not None else after)
        return found


def files_of(found: Files) -> list[int]:
    return sorted(number for each in found.values() for number in each)


@pytest.fixture
def inputs(tmp_path: Path) -> Inputs:
    return Inputs(tmp_path / "in put é")


@pytest.mark.parametrize("rebase", [False, True], ids=["keep", "rebase"])
@pytest.mark.parametrize("batch", [6, 4])
def test_a_seeded_version_reads_exactly_the_files_after_its_batch(
    spark: SparkSession, tmp_path: Path, inputs: Inputs, rebase: bool, batch: int
) -> None:
    """A seeded version reads exactly the files after its batch, also if that batch was never committed or later files
    are already listed, even in a compacted entry, and continues after restarts.
    """
    query, old, new = Query(spark, inputs), tmp_path / "v0001", tmp_path / "v0002"
    inputs.put("left", 7)
    query.run(old, after=6)
    first = REBASED if rebase else batch
    seed(LocalTree(old), LocalTree(new), batch, number=first, query_id=NEW_ID)
    assert (open_batch(LocalTree(new)), last_committed(LocalTree(new))) == (None, first)
    old.rename(tmp_path / "gone")
    inputs.put("left", 2)
    found = query.run(new)
    assert (min(found), files_of(found)) == (first + 1, list(range(batch + 1, 9)))
    inputs.put("left", 5)
    assert files_of(query.run(new)) == list(range(9, 14))
    assert json.loads((new / "metadata").read_text()) == {"id": NEW_ID}


def test_a_version_seeded_after_an_uncommitted_first_batch_continues(
    spark: SparkSession, tmp_path: Path, inputs: Inputs
) -> None:
    """A version that is seeded after an uncommitted first batch continues with batch 1 in either checkpoint format,
    although there was no commit to copy.
    """
    inputs.put("left", 1)
    Query(spark, inputs).run(tmp_path / "v0001", after=0)
    inputs.put("left", 2)
    for number, store in enumerate(("hdfs", "format-2")):
        new = tmp_path / f"new-{number}"
        seed(LocalTree(tmp_path / "v0001"), LocalTree(new), 0, number=0, query_id=NEW_ID)
        assert Query(spark, inputs, **LAYOUTS[store]).run(new) == {1: [1], 2: [2]}


def writer_for(output: Path, version: str, epoch: int) -> FileWriter:
    writer = FileSink(str(output), "csv").open(SinkContext(job="copy", query="rows", version=version, epoch=epoch))
    writer.raise_fence()
    return writer


def listed(spark: SparkSession, output: Path) -> list[int]:
    """Return the numbers of the files whose rows a reader of the sink's log finds, once per occurrence."""
    rows = spark.read.schema("k string, v int, at timestamp").csv(str(output)).collect()
    return sorted(row.v // 10 for row in rows if row.v % 10 == 0)


def test_a_file_sink_continues_in_its_directory_only_with_kept_batch_numbers(
    spark: SparkSession, tmp_path: Path, inputs: Inputs
) -> None:
    """A file sink continues in its directory without losing a row if batch numbers are kept; negative control: with new
    numbers, Spark's sink log skips the batches and rows are lost.
    """
    output = tmp_path / "out"
    query = Query(spark, inputs)
    inputs.put("left", 4)
    query.run(tmp_path / "old", after=3, writer=writer_for(output, "v0001", 1))
    for name, number in (("rebased", REBASED), ("kept", 3)):
        seed(LocalTree(tmp_path / "old"), LocalTree(tmp_path / name), 3, number=number, query_id=NEW_ID)
    inputs.put("left", 2)
    read = query.run(tmp_path / "rebased", writer=writer_for(output, "v0001", 2))
    assert (files_of(read), listed(spark, output / "v0001")) == ([4, 5], [0, 1, 2, 3])
    query.run(tmp_path / "kept", writer=writer_for(output, "v0001", 3))
    assert listed(spark, output / "v0001") == list(range(6))


def test_a_file_sink_begins_a_new_directory_with_new_numbers(
    spark: SparkSession, tmp_path: Path, inputs: Inputs
) -> None:
    """With new batch numbers and a new directory whose sink log starts with empty batches, both directories together
    contain every row once.
    """
    output = tmp_path / "out"
    query = Query(spark, inputs)
    inputs.put("left", 4)
    query.run(tmp_path / "old", before=3, writer=writer_for(output, "v0001", 1))
    seed(LocalTree(tmp_path / "old"), LocalTree(tmp_path / "new"), 2, number=REBASED, query_id=NEW_ID)
    writer = writer_for(output, "v0002", 2)
    writer.seed(REBASED)
    inputs.put("left", 2)
    query.run(tmp_path / "new", writer=writer)
    assert listed(spark, output / "v0001") == [0, 1, 2]
    assert listed(spark, output / "v0002") == [3, 4, 5]


@pytest.mark.parametrize(
    ("frame", "named"), [(both, False), (both, True), (twice, False)], ids=["two", "two-named", "one-read-twice"]
)
def test_every_source_of_a_seeded_version_continues_at_its_own_offset(
    spark: SparkSession, tmp_path: Path, inputs: Inputs, frame: Callable[[Streams], Any], named: bool
) -> None:
    """Each source of a seeded version continues at its own offset: sources of different lengths, named ones, and one
    that is read twice.
    """
    query, old = Query(spark, inputs, frame, named=named), tmp_path / "old"
    inputs.put("left", 5)
    inputs.put("right", 2)
    query.run(old)
    for name in ("kept", "rebased"):
        seed(LocalTree(old), LocalTree(tmp_path / name), 3, number=REBASED if name == "rebased" else 3, query_id=NEW_ID)
    seed_start(LocalTree(old), LocalTree(tmp_path / "fresh"), 3, query_id=NEW_ID)
    inputs.put("left", 1)
    inputs.put("right", 1)
    expected = [4, 5, 104, 105] if frame is twice else [4, 5, 102]
    for name in ("kept", "rebased", "fresh"):
        assert files_of(query.run(tmp_path / name)) == expected


@pytest.mark.parametrize("interval", ["10", "3"])
@pytest.mark.parametrize("batch", [6, 4])
def test_a_query_that_drops_its_state_reads_only_files_after_the_batch(
    spark: SparkSession, tmp_path: Path, inputs: Inputs, batch: int, interval: str
) -> None:
    """A query that gives up its state reads exactly the files after the batch, also if its first batch fails and is
    rerun, beyond log compactions, and when idle.
    """
    query = Query(spark, inputs, deduplicated, **{"spark.sql.streaming.fileSource.log.compactInterval": interval})
    old, new = tmp_path / "v0001", tmp_path / "v0002"
    inputs.put("left", 7)
    query.run(old)
    seed_start(LocalTree(old), LocalTree(new), batch, query_id=NEW_ID)
    assert (last_committed(LocalTree(new)), open_batch(LocalTree(new))) == (None, None)
    old.rename(tmp_path / "gone")
    inputs.put("left", 14)
    found = query.run(new, before=0)
    assert found == {}
    found = query.run(new, before=5) | query.run(new)
    assert (min(found), files_of(found)) == (0, list(range(batch + 1, 21)))
    assert query.run(new) == {}
    inputs.put("left", 2)
    assert files_of(query.run(new)) == [21, 22]
    assert list((new / "sources" / "0").glob("*.compact"))


def test_a_start_without_new_files_has_an_empty_first_batch(
    spark: SparkSession, tmp_path: Path, inputs: Inputs
) -> None:
    """A start without new files has a first batch without rows and later reads new files of all sources, also of a
    source that had none.
    """
    query, old, new = Query(spark, inputs, both), tmp_path / "old", tmp_path / "new"
    inputs.put("left", 2)
    query.run(old)
    seed_start(LocalTree(old), LocalTree(new), 1, query_id=NEW_ID)
    assert files_of(query.run(new)) == []
    inputs.put("left", 1)
    inputs.put("right", 1)
    assert files_of(query.run(new)) == [2, 100]


def test_what_was_listed_beyond_the_batch_must_not_count_as_seen(
    spark: SparkSession, tmp_path: Path, inputs: Inputs
) -> None:
    """Negative control: if files that were listed after the batch count as seen, their rows are lost."""
    query, old, new = Query(spark, inputs, deduplicated), tmp_path / "old", tmp_path / "new"
    inputs.put("left", 4)
    query.run(old)
    seed_start(LocalTree(old), LocalTree(new), 2, query_id=NEW_ID)
    log = new / "sources" / "0" / "0"
    beyond = json.loads((old / "sources" / "0" / "3").read_text().splitlines()[1])
    log.write_text(f"{log.read_text()}\n{json.dumps({**beyond, 'batchId': SEEN_BEFORE}, ensure_ascii=False)}")
    inputs.put("left", 1)
    assert files_of(query.run(new)) == [4]


def test_files_that_were_seen_need_a_number_that_spark_accepts(
    spark: SparkSession, tmp_path: Path, inputs: Inputs
) -> None:
    """Negative control for the entry number of seen files: Spark refuses a negative one, and reads files with an
    ordinary one a second time.
    """
    query, old = Query(spark, inputs), tmp_path / "old"
    inputs.put("left", 2)
    query.run(old)
    inputs.put("left", 1)
    for number in (-1, 0):
        new = tmp_path / f"new{number}"
        seed_start(LocalTree(old), LocalTree(new), 1, query_id=NEW_ID)
        log = new / "sources" / "0" / "0"
        log.write_text(log.read_text().replace(str(SEEN_BEFORE), str(number)))
        if number < 0:
            with pytest.raises(RuntimeError, match="assertion failed"):
                query.run(new)
        else:
            assert files_of(query.run(new)) == [0, 1, 2]
