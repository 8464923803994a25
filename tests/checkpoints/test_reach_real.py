"""Positions of checkpoints that Spark is writing, compacting and cleaning up at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.reach import Position, compare, equal_batches, missing_files, position
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.sources.files import ReadFiles
from tests.checkpoints.real_queries import CONF, Inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

BUSY = {
    "spark.sql.streaming.fileSource.log.compactInterval": "2",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
    "spark.sql.streaming.minBatchesToRetain": "2",
}
"""Confs that compact every second entry, delete compacted entries at once, and keep only two batches."""


def start(spark: SparkSession, inputs: Inputs, checkpoint: Path, *, at_once: int, **conf: str) -> StreamingQuery:
    session = spark.newSession()
    for key, value in {**CONF, **conf}.items():
        session.conf.set(key, value)
    reader = session.readStream.schema("k string, v int, seconds long").option("maxFilesPerTrigger", at_once)
    rows: Any = reader.csv(str(inputs.root / "left"))
    writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(lambda batch, _: batch.count())
    return writer.trigger(availableNow=True).start()  # type: ignore[no-any-return]


def names(found: Position) -> set[str]:
    source = found.sources["0"]
    assert isinstance(source, ReadFiles)
    return {Path(each).name for each in source.files}


def test_each_read_of_a_live_checkpoint_is_consistent_with_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    """Each read of a live checkpoint yields exactly the files up to the batch that it reports, although entries and
    plans are deleted concurrently.
    """
    inputs, busy, calm = Inputs(tmp_path / "in put é"), tmp_path / "busy", tmp_path / "calm"
    inputs.put("left", 30)
    query = start(spark, inputs, busy, at_once=1, **BUSY)
    seen: dict[int, set[str]] = {}
    while query.isActive:
        found = position(LocalTree(busy))
        if found.batch is not None:
            seen[found.batch] = names(found)
    assert query.awaitTermination(60)
    assert len(seen) >= 5
    assert seen == {batch: {f"f{n}.csv" for n in range(batch + 1)} for batch in seen}
    assert len(list((busy / "sources" / "0").glob("[0-9]*"))) < 10
    assert start(spark, inputs, calm, at_once=4).awaitTermination(120)
    assert compare(position(LocalTree(busy)), position(LocalTree(calm))).equal
    assert equal_batches(LocalTree(busy), LocalTree(calm)) == (29, 7)
    assert last_committed(LocalTree(calm)) == 7
    assert compare(position(LocalTree(calm), 7), position(LocalTree(calm), 6)).lacking == "2 files"
    (inputs.root / "left" / "f3.csv").unlink()
    assert missing_files(LocalTree(calm)) == ([str(inputs.root / "left" / "f3.csv")], 30)
