"""Tests FileSink over several checkpoint versions: the rows that a reader sees after a handoff, a rebuild and a
rollback.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.errors import Fenced, InvalidInput, OutputLost
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.contract import SinkContext, WriterRole
from streamkeeper.sinks.file import FileSink, FileWriter, newest_epoch, read_serving
from streamkeeper.sinks.sink_log import listed_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SCHEMA = "event_id string, amount long"


class Output:
    """A file output and its writers."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root = spark, root

    def writer(
        self, version: str, epoch: int, *serving: OutputSegment, shadow: bool = False, **options: Any
    ) -> FileWriter:
        context = SinkContext(
            job="copy",
            query="events",
            version=version,
            epoch=epoch,
            role=WriterRole.SHADOW if shadow else WriterRole.SERVING,
            serving=serving,
        )
        writer = FileSink(str(self.root), **options).open(context)
        writer.raise_fence()
        return writer

    def write(self, writer: FileWriter, batch_id: int, *ids: str, schema: str = SCHEMA) -> None:
        writer.write(self.spark.createDataFrame([(each, 1) for each in ids], schema), batch_id)

    @property
    def ids(self) -> list[str]:
        return sorted(row.event_id for row in read_serving(self.spark, str(self.root)).collect())


@pytest.fixture
def output(spark: SparkSession, tmp_path: Path) -> Output:
    """An output whose v0001 has written batches 0 and 1."""
    output = Output(spark, tmp_path / "out")
    first = output.writer("v0001", 1)
    output.write(first, 0, "e1")
    output.write(first, 1, "e2")
    return output


@pytest.fixture
def eager_compaction(spark: SparkSession) -> Iterator[None]:
    """Make Spark compact every third batch and delete compacted logs as soon as it may."""
    conf = {
        "spark.sql.streaming.fileSink.log.compactInterval": "3",
        "spark.sql.streaming.fileSink.log.cleanupDelay": "1ms",
        "spark.sql.streaming.minBatchesToRetain": "1",
    }
    for key, value in conf.items():
        spark.conf.set(key, value)
    yield
    for key in conf:
        spark.conf.unset(key)


def test_readers_see_the_whole_old_version_throughout_a_handoff(output: Output) -> None:
    """After a handoff readers see all of the old version before the new version's first batch, and the rows of both
    afterwards.
    """
    second = output.writer("v0002", 2, OutputSegment("v0001", last=1), OutputSegment("v0002"))
    assert output.ids == ["e1", "e2"]
    second.seed(0)
    second.seed(0)
    assert second.last_batch() == 0
    assert output.ids == ["e1", "e2"]
    output.write(second, 0, "again")
    output.write(second, 1, "e3")
    assert output.ids == ["e1", "e2", "e3"]


def test_old_version_is_read_up_to_its_last_batch_only(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that a superseded writer wrote despite its fence is not part of the output, because the old version is
    read only up to its last batch; without that limit it would be.
    """
    old = output.writer("v0001", 2)
    output.writer("v0002", 3, OutputSegment("v0001", last=1), OutputSegment("v0002"))
    monkeypatch.setattr(FileWriter, "check_fence", lambda _: None)
    output.write(old, 2, "zombie")
    assert output.ids == ["e1", "e2"]
    output.writer("v0002", 4, OutputSegment("v0001"), OutputSegment("v0002"))
    assert output.ids == ["e1", "e2", "zombie"]


def test_bounded_span_keeps_its_partition_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Partition columns are read back even for a version that is read up to a batch, whose files are listed one by
    one.
    """
    output = Output(spark, tmp_path)
    first = output.writer("v0001", 1, partition_by=["amount"])
    output.write(first, 0, "e1")
    output.write(first, 1, "e2")
    output.writer("v0002", 2, OutputSegment("v0001", last=0), OutputSegment("v0002"), partition_by=["amount"])
    rows = read_serving(spark, str(tmp_path)).collect()
    assert [(row.event_id, row.amount) for row in rows] == [("e1", 1)]


def test_log_that_is_not_seeded_cannot_be_read(output: Output) -> None:
    """Negative control: without a seeded batch 0, Spark's reader refuses a version whose first batch is 1, and so does
    the writer once Spark has listed that batch.
    """
    second = output.writer("v0002", 2)
    with pytest.raises(OutputLost):
        output.write(second, 1, "e3")
    with pytest.raises(Exception, match="(?i)batch|metadata"):
        _ = output.ids


@pytest.mark.parametrize("last", [0, 8, 9, 25, 100])
def test_seeded_log_is_read_and_compacted_from_any_batch(output: Output, last: int) -> None:
    """Spark reads and compacts the log of a version that was seeded at any batch, and a bounded part of that log.

    The batches are the first, the last before a compaction, a compaction, one between two and one after many.
    """
    second = output.writer("v0002", 2, OutputSegment("v0001", last=1), OutputSegment("v0002"))
    second.seed(last)
    second.seed(last)
    assert second.last_batch() == last
    written = [f"f{number:02d}" for number in range(12)]
    for number, each in enumerate(written):
        output.write(second, last + 1 + number, each)
        if number in (0, 5):
            assert output.ids == ["e1", "e2", *written[: number + 1]]
    second.seed(last)
    assert output.ids == ["e1", "e2", *written]
    output.writer(
        "v0003", 3, OutputSegment("v0001", last=0), OutputSegment("v0002", last=last + 2), OutputSegment("v0003")
    )
    assert output.ids == ["e1", "f00", "f01"]


def test_log_that_was_seeded_in_part_is_finished(output: Output) -> None:
    """A seed that was interrupted between its files by a crash is completed by the next writer."""
    log = output.root / "v0002" / "_spark_metadata"
    output.writer("v0002", 2)
    log.mkdir(parents=True)
    (log / "9.compact").write_text("v1")
    second = output.writer("v0002", 3)
    second.seed(12)
    assert sorted(each.name for each in log.iterdir()) == ["10", "11", "12", "9.compact"]


def test_written_log_is_not_seeded(output: Output) -> None:
    """A version whose log already contains a written batch cannot be seeded."""
    second = output.writer("v0002", 2)
    output.write(second, 0, "e3")
    for number in (0, 4):
        with pytest.raises(InvalidInput, match="already contains a batch"):
            second.seed(number)


def test_versions_may_differ_in_columns_and_format(output: Output) -> None:
    """Each version is read in its own format, and a column that a version lacks is NULL in its rows."""
    serving = (OutputSegment("v0001", last=1), OutputSegment("v0002"))
    second = output.writer("v0002", 2, *serving, format="json")
    output.write(second, 0, "e3", schema="event_id string, price long")
    third = output.writer("v0003", 3, *serving, OutputSegment("v0003"), format="orc")
    output.write(third, 0, "e4")
    rows = read_serving(output.spark, str(output.root)).collect()
    assert sorted((row.event_id, row.amount, row.price) for row in rows) == [
        ("e1", 1, None),
        ("e2", 1, None),
        ("e3", None, 1),
        ("e4", 1, None),
    ]


def test_readers_see_a_shadow_only_from_the_cutover_until_a_rollback(output: Output) -> None:
    """Readers follow the newest epoch file alone: a new one is the cutover to the shadow, and a further one is the
    rollback. Writers of the other versions are fenced.
    """
    shadow = output.writer("v0002", 2, shadow=True)
    output.write(shadow, 0, "n1", "n2")
    assert shadow.last_batch() == 0
    assert output.ids == ["e1", "e2"]
    newest = newest_epoch(str(output.root))
    assert newest is not None
    assert newest.epoch == 1
    second = output.writer("v0002", 3, OutputSegment("v0002"))
    assert output.ids == ["n1", "n2"]
    output.write(second, 1, "n3")
    assert output.ids == ["n1", "n2", "n3"]
    with pytest.raises(Fenced, match="is current and no longer a shadow"):
        output.write(shadow, 2, "zombie")
    output.writer("v0001", 4)
    assert output.ids == ["e1", "e2"]
    with pytest.raises(Fenced):
        output.write(second, 2, "zombie")


def test_shadow_does_not_fence_the_serving_writer(spark: SparkSession, tmp_path: Path) -> None:
    """A shadow and the serving version are written side by side, even if the shadow has a higher epoch."""
    output = Output(spark, tmp_path)
    first = output.writer("v0001", 5)
    shadow = output.writer("v0002", 9, shadow=True)
    output.write(first, 0, "e1")
    output.write(shadow, 0, "n1")
    output.write(first, 1, "e2")
    assert output.ids == ["e1", "e2"]


def test_discarding_removes_an_aborted_shadow_and_never_a_serving_version(output: Output) -> None:
    """Discarding an aborted shadow removes its files, but keeps a version that was promoted or is still served."""
    shadow = output.writer("v0002", 2, shadow=True)
    output.write(shadow, 0, "n1")
    shadow.discard()
    shadow.discard()
    assert not (output.root / "v0002").exists()
    shadow = output.writer("v0003", 3, shadow=True)
    output.write(shadow, 0, "n1")
    output.writer("v0003", 4, OutputSegment("v0001", last=1), OutputSegment("v0003"))
    shadow.discard()
    FileSink(str(output.root)).open(
        SinkContext(job="copy", query="events", version="v0001", epoch=4, role=WriterRole.SHADOW)
    ).discard()
    assert output.ids == ["e1", "e2", "n1"]


def test_an_epoch_file_without_a_serving_list_means_only_its_version(output: Output) -> None:
    """An epoch file without a serving list is read as its version alone, and the next epoch file keeps the format of
    that version.
    """
    file = output.root / "_streamkeeper/epochs/0000000001.json"
    file.write_text('{"epoch":1,"file_format":"parquet","owner":"copy/events","version":"v0001"}')
    assert output.ids == ["e1", "e2"]
    file.rename(file.with_name("0000000002.json"))
    file.write_text('{"epoch":1,"file_format":"json","owner":"copy/events","version":"v0000"}')
    output.writer(
        "v0002", 3, OutputSegment("v0000"), OutputSegment("v0001", last=1), OutputSegment("v0002"), format="orc"
    )
    assert output.ids == ["e1", "e2"]
    newest = newest_epoch(str(output.root))
    assert newest is not None
    assert newest.all_formats == {"v0000": "json", "v0001": "parquet", "v0002": "orc"}


@pytest.mark.usefixtures("eager_compaction")
def test_the_last_batch_of_a_bounded_version_is_found_after_compactions(spark: SparkSession, tmp_path: Path) -> None:
    """With Spark's default of 100 retained batches, the last batch of a bounded version is still found after
    compactions.
    """
    spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    output = Output(spark, tmp_path)
    first = output.writer("v0001", 1)
    for number in range(10):
        output.write(first, number, f"e{number}")
    output.writer("v0002", 2, OutputSegment("v0001", last=1), OutputSegment("v0002"))
    assert output.ids == ["e0", "e1"]


@pytest.mark.usefixtures("eager_compaction")
def test_a_bounded_version_whose_last_batch_was_compacted_away_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A version that is read up to a batch is refused with an error, instead of wrong rows, once a compaction has
    merged that batch with later ones; before that it is read.
    """
    output = Output(spark, tmp_path)
    first = output.writer("v0001", 1)
    for number in range(8):
        output.write(first, number, f"e{number}")
    for epoch, last in enumerate((7, 6, 5), start=2):
        output.writer("v0002", epoch, OutputSegment("v0001", last=last), OutputSegment("v0002"))
        assert output.ids == [f"e{number}" for number in range(last + 1)]
    output.writer("v0002", 5, OutputSegment("v0001", last=1), OutputSegment("v0002"))
    with pytest.raises(InvalidInput, match=r"up to 1 from later ones: it was compacted at batch \d"):
        read_serving(spark, str(tmp_path))
    with pytest.raises(InvalidInput, match="compacted at batch"):
        listed_files(f"{tmp_path}/v0001", last=1)
