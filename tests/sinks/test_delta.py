"""Tests of DeltaSink's fence, its content after changes of versions, and its refusals, on real Delta tables."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from harness.delta_tables import read_delta
from harness.waiting import wait_for
from streamkeeper import DeltaSink, FileSink
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.errors import (
    Fenced,
    InvalidInput,
    OutputLost,
    OutputUnfit,
    StoreUnavailable,
    StreamkeeperError,
    Unsupported,
)
from streamkeeper.jvm.delta_commits import KEY
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.contract import SinkWriter, WriterRole
from streamkeeper.sinks.delta_record import DeltaRecord, read_record
from streamkeeper.sinks.delta_session import DeltaSession
from streamkeeper.sinks.fences import read_fences
from streamkeeper.sinks.output_lookup import reconcile
from tests.contracts.sink_contract import opened, question_about

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Row = tuple[str | None, int]


class Place:
    """An empty place for one table."""

    def __init__(self, root: Path, spark: SparkSession, **sink: Any) -> None:
        self.spark = spark
        self.path = root / "table"
        self.sink = DeltaSink(str(self.path), **sink)

    def batch(self, *rows: Row) -> DataFrame:
        return self.spark.createDataFrame(list(rows), "customer string, total long")

    def rows(self) -> list[Row]:
        return sorted(read_delta(str(self.path), ["customer", "total"]), key=str)

    def sql(self, statement: str) -> None:
        """Run a statement on the table as another user of the table does; ``{}`` is the table."""
        DeltaSession(self.spark).spark.sql(statement.format(f"delta.`{self.path}`"))

    def shadow(self, version: str, epoch: int, *rows: Row) -> SinkWriter:
        """Write one batch to a version's shadow table."""
        writer = opened(self, epoch, version, role=WriterRole.SHADOW)
        writer.write(self.batch(*rows), 0)
        return writer


@pytest.fixture
def place(tmp_path: Path, delta_spark: SparkSession) -> Place:
    return Place(tmp_path, delta_spark)


def after(*segments: tuple[str, int], version: str) -> tuple[OutputSegment, ...]:
    """Return the segments of an output that ``version`` continues."""
    return (*(OutputSegment(name, last) for name, last in segments), OutputSegment(version))


def write_slowly(place: Place, writer: SinkWriter, meanwhile: Callable[[], object], flags: Path) -> list[Exception]:
    """Begin to write a batch, call ``meanwhile`` before its rows are there, and return the errors of the write."""
    began, may_end = str(flags / "began"), str(flags / "may-end")

    def wait(customer: str) -> str:
        Path(began).touch()
        while not os.path.exists(may_end):
            time.sleep(0.05)
        return customer

    errors: list[Exception] = []

    def write() -> None:
        try:
            writer.write(place.batch(("late", 1)).withColumn("customer", F.udf(wait)("customer")), 1)
        except StreamkeeperError as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    wait_for("the write", lambda: os.path.exists(began), 60)
    meanwhile()
    Path(may_end).touch()
    thread.join()
    return errors


@pytest.mark.parametrize("key", [(), ("customer",)], ids=["rows", "keyed"])
def test_a_write_that_began_before_the_fence_is_not_committed(
    tmp_path: Path, delta_spark: SparkSession, key: tuple[str, ...]
) -> None:
    """A batch whose rows are still being computed when the next writer raises its fence is not committed."""
    place = Place(tmp_path, delta_spark, key=key)
    old = opened(place, 1)
    old.write(place.batch(("a", 1)), 0)
    (error,) = write_slowly(place, old, lambda: opened(place, 2), tmp_path)
    assert isinstance(error, Fenced)
    assert place.rows() == [("a", 1)]


def test_a_replayed_batch_changes_no_row(place: Place) -> None:
    """A batch that the table has is not written again, neither by the same writer nor under a newer epoch."""
    writer = opened(place, 1)
    writer.write(place.batch(("a", 1)), 0)
    writer.write(place.batch(("a", 1)), 0)
    opened(place, 2).write(place.batch(("a", 1)), 0)
    assert place.rows() == [("a", 1)]


def test_a_restore_shows_the_rows_up_to_its_batch(place: Place) -> None:
    """After a restore to an older batch, readers see the rows up to that batch, then those of the new version."""
    writer = opened(place, 1)
    for number in range(3):
        writer.write(place.batch((f"c{number}", number)), number)
    restored = opened(place, 2, "v0002", serving=after(("v0001", 1), version="v0002"))
    assert place.rows() == [("c0", 0), ("c1", 1)]
    restored.seed(1)
    restored.write(place.batch(("c2", 7)), 2)
    assert place.rows() == [("c0", 0), ("c1", 1), ("c2", 7)]


def test_without_a_closed_writer_a_late_write_is_committed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: if the fence does not close the earlier writer, its late write adds rows."""
    old = opened(place, 1)
    old.write(place.batch(("a", 1)), 0)
    monkeypatch.setattr(DeltaRecord, "open_ids", property(lambda self: []))
    write_slowly(place, old, lambda: opened(place, 2), tmp_path)
    assert place.rows() == [("a", 1), ("late", 1)]


def test_a_commit_of_a_local_table_is_created_once(place: Place) -> None:
    """Of two writers of the same commit, the second one gets an error and the first one's commit stays."""
    opened(place, 1)
    jvm: Any = place.spark._jvm
    configuration = place.spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    target = place.path / "_delta_log" / f"{7:020}.json"
    path = jvm.org.apache.hadoop.fs.Path(f"file:{target}")

    def iter_of(line: str) -> Any:
        return jvm.java.util.Collections.singletonList(line).iterator()

    store = jvm.streamkeeper.jvm.CreateOnlyLogStore(configuration)
    assert jvm.org.apache.spark.SparkEnv.get().conf().get(KEY.format("file")) == store.getClass().getName()
    store.write(path, iter_of("{}"), False, configuration)
    with pytest.raises(Exception, match="FileAlreadyExistsException"):
        store.write(path, iter_of("late"), False, configuration)
    assert target.read_text() == "{}\n"
    assert [name for name in os.listdir(target.parent) if name.endswith(".tmp")] == []


def test_a_table_is_rebuilt_where_none_is(place: Place) -> None:
    """A shadow whose current table is missing becomes the table at the cutover."""
    place.shadow("v0002", 1, ("a", 1), ("b", 2))
    writer = opened(place, 2, "v0002")
    assert (place.rows(), writer.last_batch()) == ([("a", 1), ("b", 2)], 0)
    writer.write(place.batch(("c", 3)), 1)
    assert place.rows() == [("a", 1), ("b", 2), ("c", 3)]


def test_a_shadow_of_another_job_is_not_adopted(place: Place) -> None:
    """A shadow table that another installation left under the same version is not taken for this job's output."""
    opened(place, 1, "v0002", role=WriterRole.SHADOW, installation="a1").write(place.batch(("a", 1)), 0)
    with pytest.raises(StreamkeeperError, match="installation a1"):
        opened(place, 2, "v0002", installation="b2")


def test_versions_without_input_pass_on_all_rows(place: Place) -> None:
    """A version that is handed over before it has a batch of its own keeps the rows of the versions before it."""
    writer = opened(place, 1)
    writer.write(place.batch(("a", 1)), 0)
    writer.write(place.batch(("b", 2)), 1)
    second = opened(place, 2, "v0002", serving=after(("v0001", 1), version="v0002"))
    second.seed(1)
    assert reconcile(question_about(place.sink, "v0002"), 1).refusal == ""
    third = opened(place, 3, "v0003", serving=after(("v0001", 1), ("v0002", 1), version="v0003"))
    third.seed(1)
    third.write(place.batch(("c", 3)), 2)
    assert place.rows() == [("a", 1), ("b", 2), ("c", 3)]


def test_a_version_that_never_wrote_its_fence_is_passed_over(place: Place) -> None:
    """If a version was recorded but its driver never reached the table, the next version continues the table."""
    opened(place, 1).write(place.batch(("a", 1)), 0)
    third = opened(place, 3, "v0003", serving=after(("v0001", 0), ("v0002", 0), version="v0003"))
    third.seed(0)
    third.write(place.batch(("b", 2)), 1)
    assert place.rows() == [("a", 1), ("b", 2)]


def test_a_rebuilt_version_that_never_wrote_its_fence_is_continued(place: Place) -> None:
    """If the driver of a rebuilt version ends between its claim and its first fence, the version that continues it gets
    the rows of the shadow.
    """
    opened(place, 1).write(place.batch(("old", 1)), 0)
    shadow = place.shadow("v0002", 2, ("a", 1))
    shadow.write(place.batch(("b", 2)), 1)
    with pytest.raises(OutputUnfit, match="has no batch of v0002"):
        opened(place, 3, "v0003", serving=after(("v0002", 0), version="v0003"))
    third = opened(place, 4, "v0003", serving=after(("v0002", 1), version="v0003"))
    third.seed(1)
    third.write(place.batch(("c", 3)), 2)
    assert place.rows() == [("a", 1), ("b", 2), ("c", 3)]


def test_a_version_never_replaces_rows_that_it_cannot_find(place: Place) -> None:
    """If the table has no batch of the version that the next one continues, the next one is refused and the table stays
    as it is.
    """
    opened(place, 1).write(place.batch(("a", 1)), 0)
    with pytest.raises(OutputUnfit, match="has no batch of v0002, which v0003 continues"):
        opened(place, 3, "v0003", serving=after(("v0002", 4), version="v0003"))
    assert place.rows() == [("a", 1)]


def test_rows_of_others_stay_if_no_version_has_a_batch(place: Place) -> None:
    """A version that follows one without any batch leaves the rows that others have added meanwhile."""
    place.sql("CREATE TABLE {} (customer STRING, total BIGINT) USING delta")
    opened(place, 1)
    place.sql("INSERT INTO {} VALUES ('guest', 7)")
    opened(place, 2, "v0002").write(place.batch(("a", 1)), 0)
    assert place.rows() == [("a", 1), ("guest", 7)]


def test_a_damaged_shadow_does_not_stop_the_table(place: Place) -> None:
    """A shadow folder that is only half there concerns neither the table's record nor its writer."""
    writer = opened(place, 1)
    writer.write(place.batch(("a", 1)), 0)
    place.shadow("v0002", 2, ("x", 9))
    (place.path / "_streamkeeper/v0002/_delta_log" / f"{0:020}.json").unlink()
    assert writer.read_record().last == {"v0001": 0}
    writer.write(place.batch(("b", 2)), 1)
    assert place.rows() == [("a", 1), ("b", 2)]


def test_versions_return_with_their_own_rows(place: Place) -> None:
    """After a rebuild, a return to the old version shows its rows, and a second return those of the rebuilt version."""
    opened(place, 1).write(place.batch(("a", 1)), 0)
    place.shadow("v0002", 2, ("x", 9))
    opened(place, 3, "v0002").write(place.batch(("y", 9)), 1)
    back = opened(place, 4)
    assert (place.rows(), back.last_batch()) == ([("a", 1)], 0)
    back.write(place.batch(("b", 2)), 1)
    again = opened(place, 5, "v0002")
    assert (place.rows(), again.last_batch()) == ([("x", 9), ("y", 9)], 1)
    assert opened(place, 6).last_batch() == 1
    assert place.rows() == [("a", 1), ("b", 2)]


def test_a_table_that_others_changed_is_not_set_back(place: Place) -> None:
    """Rows that others added later would be lost by a restore or a rollback, which are refused. A compaction adds no
    rows and is no obstacle.
    """
    writer = opened(place, 1)
    for number in range(3):
        writer.write(place.batch((f"c{number}", number)), number)
    place.sql("OPTIMIZE {}")
    assert reconcile(question_about(place.sink, "v0001"), 1).refusal == ""
    place.sql("INSERT INTO {} VALUES ('guest', 7)")
    assert "others changed rows of table" in reconcile(question_about(place.sink, "v0001"), 1).refusal
    with pytest.raises(OutputUnfit, match="others changed rows"):
        opened(place, 2, "v0002", serving=after(("v0001", 1), version="v0002"))
    assert ("guest", 7) in place.rows()


def test_a_table_without_its_old_files_is_not_set_back(place: Place) -> None:
    """If the files of an earlier content were deleted, as VACUUM does, a return to it is refused, and the table stays
    as it is.
    """
    opened(place, 1).write(place.batch(("a", 1)), 0)
    old = list(place.path.glob("*.parquet"))
    place.shadow("v0002", 2, ("x", 9))
    opened(place, 3, "v0002")
    for file in old:
        file.unlink()
    with pytest.raises(OutputUnfit, match="VACUUM deleted"):
        opened(place, 4)
    assert place.rows() == [("x", 9)]


def test_the_record_outlives_the_commits_before_a_checkpoint(place: Place) -> None:
    """The record is read from the log's checkpoint once Delta has removed older commits; an incomplete or empty
    checkpoint is ignored.
    """
    writer = opened(place, 1)
    for number in range(11):
        writer.write(place.batch((f"c{number:02}", number)), number)
    opened(place, 2, "v0002", serving=after(("v0001", 10), version="v0002")).seed(10)
    log = place.path / "_delta_log"
    assert list(log.glob("*.checkpoint.parquet"))
    whole = read_record(tree_at(str(place.path)))
    for number in range(10):
        (log / f"{number:020}.json").unlink()
    (log / f"{12:020}.checkpoint.0000000001.0000000002.parquet").write_bytes(b"a part")
    (log / f"{13:020}.checkpoint.parquet").touch()
    assert read_record(tree_at(str(place.path))) == whole
    assert whole is not None
    assert whole.batches == {"v0001": 10, "v0002": 10}
    assert "does not contain batch 3" in reconcile(question_about(place.sink, "v0001"), 3).refusal


def test_an_older_copy_that_appears_bit_by_bit_stops_the_writer(place: Place, tmp_path: Path) -> None:
    """A writer that reads the log of an older copy while it is being copied does not write to the copy later."""
    writer = opened(place, 1)
    for number in range(2):
        writer.write(place.batch((f"c{number}", number)), number)
    shutil.copytree(place.path, tmp_path / "copy")
    writer.write(place.batch(("c2", 2)), 2)
    shutil.rmtree(place.path)
    shutil.copytree(tmp_path / "copy", place.path)
    first = place.path / "_delta_log" / f"{0:020}.json"
    first.rename(tmp_path / "first")
    with pytest.raises(StoreUnavailable, match="lacks commit 0"):
        writer.write(place.batch(("c3", 3)), 3)
    (tmp_path / "first").rename(first)
    with pytest.raises(OutputLost):
        writer.write(place.batch(("c3", 3)), 3)
    assert place.rows() == [("c0", 0), ("c1", 1)]


def test_a_table_behind_a_link_is_set_back(tmp_path: Path, delta_spark: SparkSession) -> None:
    """A table whose directory is a link can be restored to an earlier batch."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "table").symlink_to(tmp_path / "disk")
    place = Place(tmp_path, delta_spark, key=("customer",))
    writer = opened(place, 1)
    for number in range(2):
        writer.write(place.batch(("a", number)), number)
    assert reconcile(question_about(place.sink, "v0001"), 0).refusal == ""
    opened(place, 2, "v0002", serving=after(("v0001", 0), version="v0002"))
    assert place.rows() == [("a", 0)]


def test_an_older_copy_or_a_missing_table_stops_the_writer(place: Place, tmp_path: Path) -> None:
    """A writer that has seen later batches writes neither to an older copy of its table nor to a missing one."""
    first = opened(place, 1)
    first.write(place.batch(("a", 1)), 0)
    shutil.copytree(place.path, tmp_path / "copy")
    second = opened(place, 2)
    second.write(place.batch(("b", 2)), 1)
    shutil.rmtree(place.path)
    with pytest.raises(OutputLost):
        second.write(place.batch(("c", 3)), 2)
    shutil.copytree(tmp_path / "copy", place.path)
    with pytest.raises(OutputLost):
        second.write(place.batch(("c", 3)), 2)
    assert place.rows() == [("a", 1)]


def test_an_adopted_folder_is_never_discarded(place: Place) -> None:
    """Once a shadow's files belong to the table, no discard removes them; the folder of an abandoned shadow is removed
    and does not stand in the way of the next deploy.
    """
    opened(place, 1).write(place.batch(("a", 1)), 0)
    adopted = place.shadow("v0002", 2, ("x", 9))
    opened(place, 3, "v0002")
    adopted.discard()
    opened(place, 4)
    adopted.discard()
    assert list(place.path.glob("_streamkeeper/v0002/*.parquet"))
    abandoned = Place(place.path.parent / "other", place.spark)
    abandoned.shadow("v0003", 1, ("x", 9)).discard()
    assert not (abandoned.path / "_streamkeeper").exists()
    assert abandoned.sink.find_conflict(serves=False) is None


def test_columns_of_all_types_are_stored(tmp_path: Path, delta_spark: SparkSession) -> None:
    """Columns of types that Delta accepts are stored, also timestamps without a zone, which need a table feature;
    an interval is refused by its column. A column or a field may have the name of a refused type.
    """
    place = Place(tmp_path, delta_spark, partition_by=["day"])
    batch = place.batch(("a", 1)).selectExpr(
        "customer", "total", "DATE'2026-01-02' AS day", "TIMESTAMP_NTZ'2026-01-02 03:04:05' AS at",
        "named_struct('voided', true, 'interval', 1) AS flags", "map('k', array(1)) AS counts", "X'00ff' AS raw",
    )  # fmt: skip
    place.sink.rehearse(batch)
    opened(place, 1, "v0002", role=WriterRole.SHADOW).write(batch, 0)
    writer = opened(place, 2, "v0002")
    writer.write(batch, 1)
    rows = DeltaSession(delta_spark).spark.read.format("delta").load(str(place.path)).select(*batch.columns).collect()
    assert rows == batch.collect() * 2
    with pytest.raises(Unsupported, match="column gap has the type interval"):
        place.sink.check_columns(batch.selectExpr("*", "INTERVAL '1' DAY AS gap"))


def test_a_complete_batch_replaces_all_partitions(tmp_path: Path, delta_spark: SparkSession) -> None:
    """In complete mode a batch replaces the partitions for which it has no rows, whatever the job's session sets."""
    place = Place(tmp_path, delta_spark, partition_by=["total"])
    delta_spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    writer = opened(place, 1, mode="complete")
    writer.write(place.batch(("a", 1), ("b", 2)), 0)
    writer.write(place.batch(("c", 3)), 1)
    assert read_delta(str(place.path), ["customer"]) == [("c",)]


def test_rows_with_a_null_in_the_key_are_replaced_and_rows_with_one_key_refused(
    tmp_path: Path, delta_spark: SparkSession
) -> None:
    """A null is a key like any other. Several rows with one key in a batch are refused with the key."""
    place = Place(tmp_path, delta_spark, key=["customer"])
    writer = opened(place, 1, mode="update")
    writer.write(place.batch((None, 1), ("a", 1)), 0)
    writer.write(place.batch((None, 2)), 1)
    assert place.rows() == [("a", 1), (None, 2)]
    with pytest.raises(InvalidInput, match="several rows with the key customer='b'"):
        writer.write(place.batch(("b", 1), ("b", 2)), 2)
    assert writer.last_batch() == 1


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("INSERT INTO {} VALUES ('a', 1)", "has rows that Streamkeeper did not write"),
        ("ALTER TABLE {} SET TBLPROPERTIES ('delta.appendOnly' = 'true')", "delta.appendOnly=true"),
        ("ALTER TABLE {} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 days')", "forget"),
        ("ALTER TABLE {} ADD CONSTRAINT some CHECK (total > 0)", "has constraints (delta.constraints.some)"),
    ],
)
def test_an_existing_table_that_cannot_be_rebuilt_is_refused(place: Place, statement: str, told: str) -> None:
    """An existing table is refused if a rebuild, a rollback or a restore could not keep its rows or its rules; the
    rehearsal finds the rules before a deploy. An existing empty table is accepted.
    """
    place.sql("CREATE TABLE {} (customer STRING, total BIGINT) USING delta")
    place.sink.rehearse(place.batch(("a", 1)))
    place.sql(statement)
    with pytest.raises(InvalidInput) as refused:
        opened(place, 1)
    assert told in refused.value.message
    if "rows" in told:
        assert "files that Streamkeeper did not write" in (place.sink.find_conflict(serves=False) or "")
    else:
        with pytest.raises(InvalidInput):
            place.sink.rehearse(place.batch(("a", 1)))


def test_an_existing_table_with_a_required_column_is_refused(place: Place) -> None:
    """An existing table with a NOT NULL column is refused, because the columns of a rebuilt version may be null."""
    place.sql("CREATE TABLE {} (customer STRING, total BIGINT NOT NULL) USING delta")
    for refused in (lambda: opened(place, 1), lambda: place.sink.rehearse(place.batch(("a", 1)))):
        with pytest.raises(InvalidInput, match="NOT NULL.*total"):
            refused()


def test_an_existing_empty_table_is_written(place: Place) -> None:
    """An empty table that a user created is written, and its fence is found by its directory."""
    place.sql("CREATE TABLE {} (customer STRING, total BIGINT) USING delta")
    opened(place, 1, installation="a1").write(place.batch(("a", 1)), 0)
    assert place.rows() == [("a", 1)]
    (fence,) = read_fences(str(place.path))
    assert (fence.owner, fence.version, fence.batch, fence.epoch) == ("sales/totals", "v0001", 0, 1)


def test_a_batch_with_other_columns_is_refused(place: Place) -> None:
    """A batch with other columns than the table is refused with each difference, before anything is written."""
    opened(place, 1).write(place.batch(("a", 1)), 0)
    other = place.batch(("b", 2)).selectExpr("customer", "CAST(total AS INT) AS total", "1 AS more")
    for refused in (lambda: opened(place, 2).write(other, 1), lambda: place.sink.rehearse(other)):
        with pytest.raises(OutputUnfit, match="no column more; column total is int in the query and bigint"):
            refused()
    assert place.rows() == [("a", 1)]


def test_outputs_in_one_directory_overlap(tmp_path: Path) -> None:
    """Two outputs overlap if one is inside the other's directory, also with a sink of another kind."""
    table = DeltaSink(str(tmp_path / "t"))
    assert table.overlaps(FileSink(str(tmp_path / "t" / "files")))
    assert table.overlaps(DeltaSink(f"file://{tmp_path}/t"))
    assert not table.overlaps(DeltaSink(str(tmp_path / "other")))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"path": "gs://bucket/table"}, "gs:// is not supported"),
        ({"path": "s3a://bucket"}, "no bucket and prefix"),
        ({"path": "/t", "key": "customer"}, "is not a list of columns"),
        ({"path": "/t", "partition_by": ["a", "a"]}, "names a column twice"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(given: dict[str, Any], told: str) -> None:
    """A path or a list of columns that cannot work is refused when the job declares its sink."""
    with pytest.raises(InvalidInput, match=told):
        DeltaSink(**given)


def test_only_a_table_with_a_key_takes_the_mode_update() -> None:
    """In the mode update, a row replaces an earlier one, which needs a key."""
    assert "update" not in DeltaSink("/t").output_modes
    assert "update" in DeltaSink("/t", key=["customer"]).output_modes
