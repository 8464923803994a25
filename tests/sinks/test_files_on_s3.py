"""Tests of a FileSink in a bucket: two writers of a log entry, failed batches, refusals, removed shadows, cut
outputs and outputs inside others.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from harness.fault_proxy import FaultProxy, fault_proxy
from harness.outputs import read_rows
from harness.s3_server import S3Server
from streamkeeper import FileSink, read_serving
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.s3_tree import S3Tree
from streamkeeper.errors import InvalidInput
from streamkeeper.jvm.create_only import MANAGER, OURS
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks import file
from streamkeeper.sinks.contract import WriterRole
from streamkeeper.sinks.output_lookup import reconcile
from streamkeeper.sinks.sink_log import listed_files
from streamkeeper.stores.s3 import connect
from tests.contracts.sink_contract import SCHEMA, opened, question_about

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.s3]
Row = tuple[str, int]
_OF_SPARK = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
_TAKEN = re.compile("Race while writing batch|CONCURRENT_STREAM_LOG_UPDATE|another writer was first")


class PlaceInBucket:
    """An empty place for one output in a bucket."""

    def __init__(self, bucket: str, spark: SparkSession) -> None:
        self.spark = spark
        self.where = f"{bucket}/out"
        self.sink = FileSink(self.where)

    def batch(self, *rows: Row) -> DataFrame:
        return self.spark.createDataFrame(list(rows), SCHEMA)

    def rows(self) -> list[Row]:
        return sorted((row.customer, row.total) for row in read_serving(self.spark, self.where).collect())

    def objects(self, below: str = "") -> list[str]:
        """Return the paths of all objects below a folder, with those that s3a leaves for empty folders."""
        bucket, _, prefix = f"{self.where}/{below}".removeprefix("s3a://").partition("/")
        found = connect("the server itself").list_objects_v2(Bucket=bucket, Prefix=prefix)
        return [entry["Key"].removeprefix(prefix) for entry in found.get("Contents", ())]

    def data_files(self) -> list[str]:
        return [path for path in self.objects() if path.endswith(".parquet")]


@pytest.fixture
def place(files_spark_on_s3: SparkSession, s3_url: str) -> PlaceInBucket:
    return PlaceInBucket(s3_url.replace("s3:", "s3a:"), files_spark_on_s3)


class SinkBehindProxy:
    """Spark's own file sink in the session of a driver whose requests pass a proxy. ``manager``: the class that creates
    the entries of the log, if it is not the driver's.
    """

    def __init__(self, place: PlaceInBucket, proxy: FaultProxy, *, manager: str = "") -> None:
        self._place = place
        self._session = place.spark.newSession()
        self._session.conf.set("fs.s3a.endpoint", proxy.endpoint)
        self._session.conf.set("fs.s3a.impl.disable.cache", "true")
        if manager:
            self._session.conf.set(MANAGER, manager)

    def write(self, number: int, name: str) -> bool:
        """Write a batch of one row; whether this writer created the batch's entry in the log."""
        batch = self._session.createDataFrame([(name, number)], SCHEMA)
        sink = file._spark_sink(batch, f"{self._place.where}/v0001", self._place.sink)
        try:
            sink.addBatch(number, batch._jdf)
        except Exception as error:
            if not _TAKEN.search(str(error)):
                raise
            return False
        return True

    def race(self, number: int) -> list[str]:
        """Let two writers write a batch at the same time, and return the names of those who created its entry."""
        won: list[str] = []

        def write(name: str) -> None:
            if self.write(number, name):
                won.append(name)

        threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return won


def test_exactly_one_of_two_writers_creates_an_entry_of_the_log(place: PlaceInBucket, s3_server: S3Server) -> None:
    """Of two writers that write the same batch at the same time, one creates its entry in the sink log and the other
    gets an error, even if answers are lost; readers see the rows of the first one. Negative control: with the manager
    that Spark uses by default both succeed.
    """
    opened(place, 1)
    with fault_proxy(s3_server.endpoint, seed=1) as proxy:
        sink = SinkBehindProxy(place, proxy)
        proxy.meets = re.compile(r"/_spark_metadata/\d+$")
        winners = [sink.race(number) for number in range(3)]
        assert proxy.made["met"] == 3
        proxy.let_go()
        proxy.lose_share = 0.3
        winners += [sink.race(number) for number in range(3, 6)]
        assert proxy.made["lost"] > 0
        proxy.lose_share = 0.0
        assert [len(won) for won in winners] == [1] * 6
        assert place.rows() == sorted((won, number) for number, (won,) in enumerate(winners))
        proxy.meets = re.compile(r"/_spark_metadata/\d+$")
        assert sorted(SinkBehindProxy(place, proxy, manager=_OF_SPARK).race(6)) == ["one", "two"]


def test_a_failed_batch_leaves_no_row_and_is_written_again(place: PlaceInBucket) -> None:
    """If one task of a batch fails after another one has written its file, readers see no row of the batch, no file of
    it is left in the bucket, and the next attempt writes each row once.
    """
    writer = opened(place, 1)
    writer.write(place.batch(("a", 1)), 0)
    before = place.data_files()
    good, bad = place.batch(("b", 2)).coalesce(1), place.batch(("c", 3)).coalesce(1)
    failing = good.union(bad.where(F.assert_true(F.col("total") < 3).isNull()))
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION|is not true"):
        writer.write(failing, 1)
    assert place.rows() == [("a", 1)]
    assert place.data_files() == before
    writer.write(good.union(bad), 1)
    assert place.rows() == [("a", 1), ("b", 2), ("c", 3)]


def test_a_bucket_that_drivers_do_not_reach_is_refused(place: PlaceInBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """An output in a bucket is refused, and nothing is written, if s3a and boto3 use different servers, or if the JVM
    lacks the manager that creates each entry of the log once, in its own configuration or because a conf of the job
    replaces it. An output in HDFS is refused if the installation's checkpoints are elsewhere.
    """

    def refuse(match: str) -> None:
        for write in (lambda: opened(place, 1), lambda: place.sink.rehearse(place.batch(("a", 1)))):
            with pytest.raises(InvalidInput, match=match):
                write()

    configuration = place.spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    of_bucket = "fs.s3a.bucket.streamkeeper.endpoint"
    configuration.set(of_bucket, "http://127.0.0.1:9")
    try:
        refuse("the job's fs.s3a endpoint differs from AWS_ENDPOINT_URL")
    finally:
        configuration.unset(of_bucket)
    lacking = "is on s3a://, but the installation's checkpoints are not"
    place.spark.conf.set(MANAGER, _OF_SPARK)
    try:
        refuse(lacking)
    finally:
        place.spark.conf.unset(MANAGER)
    configuration.unset(MANAGER)
    try:
        refuse(lacking)
    finally:
        configuration.set(MANAGER, OURS)
    monkeypatch.setenv("STREAMKEEPER_CHECKPOINTS", place.where)
    with pytest.raises(InvalidInput, match="is on hdfs://, but the installation's checkpoints are not"):
        FileSink("hdfs://namenode:8020/out").rehearse(place.batch(("a", 1)))
    assert place.objects() == []
    opened(place, 1).write(place.batch(("a", 1)), 0)
    assert place.rows() == [("a", 1)]


@pytest.mark.storage
def test_a_discarded_shadow_leaves_no_object(place: PlaceInBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A discarded shadow leaves neither files nor schemas, nor objects for empty folders. A removal that was
    interrupted can be repeated, also if only the schemas are left.
    """
    opened(place, 1).write(place.batch(("a", 1)), 0)
    shadow = opened(place, 2, "v0002", role=WriterRole.SHADOW)
    shadow.write(place.batch(("x", 9)), 0)
    shadow.write(place.batch(("y", 8)), 1)
    for interrupted in ("drop_empty_folders", "empty"):
        with monkeypatch.context() as patched:
            patched.setattr(S3Tree, interrupted, lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                shadow.discard()
        assert place.rows() == [("a", 1)]
    assert place.objects("_streamkeeper/schemas/v0002/")
    shadow.discard()
    assert place.objects("v0002") == place.objects("_streamkeeper/schemas/v0002") == []
    assert place.rows() == [("a", 1)]


@pytest.mark.storage
def test_an_output_in_a_bucket_is_cut_back_to_an_older_batch(place: PlaceInBucket) -> None:
    """After a restore to an older batch, readers see the old version up to that batch and then the new version, with
    every partition value as it was written; a batch before a compacted entry of the log can no longer be separated.
    """
    names = ["plain", "a b", "50%", "x=y/z", "ü?#"]
    place.sink = FileSink(place.where, partition_by=["customer"])
    old = opened(place, 1)
    for number in range(12):
        old.write(place.batch((names[number % 5], number)), number)
    kept = [(names[number % 5], number) for number in range(11)]
    assert reconcile(question_about(place.sink, "v0001"), 10).refusal == ""
    # As Spark does after a hundred batches and ten minutes.
    tree_at(f"{place.where}/v0001/_spark_metadata").delete(map(str, range(9)))
    assert "compacted at batch 9" in reconcile(question_about(place.sink, "v0001"), 5).refusal
    new = opened(place, 2, "v0002", serving=(OutputSegment("v0001", 10), OutputSegment("v0002")))
    new.seed(0)
    assert place.rows() == sorted(kept)
    new.write(place.batch(("ü?#", 99)), 1)
    assert place.rows() == sorted([*kept, ("ü?#", 99)])
    assert sorted(read_rows(place.where, ["customer", "total"])) == place.rows()
    assert all(found.startswith(f"{place.where}/v0001/customer=") for found in listed_files(f"{place.where}/v0001"))


def test_an_output_inside_a_version_of_another_one_conflicts(place: PlaceInBucket) -> None:
    """An output inside a version's folder of another output in the bucket conflicts with it, and one in another folder
    does not.
    """
    inside, beside = (FileSink(f"{place.where}/{name}") for name in ("v0002/copies", "copies"))
    assert place.sink.overlaps(inside)
    assert inside.overlaps(place.sink)
    assert not place.sink.overlaps(beside)
    assert inside.find_conflict(serves=False) is None
    opened(place, 1)
    conflict = f"directory {inside.path} is inside an internal directory of output {place.where}"
    assert inside.find_conflict(serves=False) == conflict
    assert beside.find_conflict(serves=False) is None
    assert place.sink.find_conflict(serves=False) is None


@pytest.mark.parametrize("shadow", [False, True])
def test_a_foreign_folder_in_a_bucket_is_neither_written_nor_removed(place: PlaceInBucket, shadow: bool) -> None:
    """A folder with the name of a version that another program has filled is refused, and keeps its objects."""
    tree_at(f"{place.where}/v0002").create("mine.csv", [b"1"])
    with pytest.raises(InvalidInput, match="has files that Streamkeeper did not write"):
        opened(place, 2, "v0002", role=WriterRole.SHADOW if shadow else WriterRole.SERVING)
    assert place.objects("v0002/") == ["mine.csv"]
