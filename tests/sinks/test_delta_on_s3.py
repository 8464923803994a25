"""Tests of Delta tables in a bucket: two writers of a commit, late writers, removed shadows, and the log's list."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.delta_tables import read_delta
from harness.fault_proxy import FaultProxy, fault_proxy
from harness.s3_server import S3Server
from streamkeeper import DeltaSink
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.s3_tree import S3Tree
from streamkeeper.errors import Fenced, InvalidInput, StoreUnavailable
from streamkeeper.jvm.delta_commits import KEY
from streamkeeper.sinks.contract import WriterRole
from streamkeeper.sinks.delta_record import read_record
from streamkeeper.stores.s3 import connect
from tests.contracts.sink_contract import opened
from tests.sinks.test_delta import Place, Row, write_slowly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.s3]


class PlaceInBucket(Place):
    """An empty place for one table in a bucket."""

    def __init__(self, bucket: str, spark: SparkSession, **sink: Any) -> None:
        self.spark = spark
        self.where = f"{bucket}/table"
        self.sink = DeltaSink(self.where, **sink)

    def rows(self) -> list[Row]:
        return sorted(read_delta(self.where, ["customer", "total"]), key=str)


@pytest.fixture
def place(delta_spark_on_s3: SparkSession, s3_url: str) -> PlaceInBucket:
    return PlaceInBucket(s3_url.replace("s3:", "s3a:"), delta_spark_on_s3)


class LogStore:
    """The log store of a driver, whose requests pass a proxy."""

    def __init__(self, spark: SparkSession, proxy: FaultProxy) -> None:
        self._jvm: Any = spark._jvm
        context: Any = spark.sparkContext
        self._conf = self._jvm.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())
        self._conf.set("fs.s3a.endpoint", proxy.endpoint)
        self._conf.set("fs.s3a.impl.disable.cache", "true")
        self._store = self._jvm.streamkeeper.jvm.CreateOnlyS3LogStore(self._conf)

    def _path(self, where: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(where)

    def write(self, where: str, line: str) -> bool:
        """Create a commit with one line; whether this writer created it."""
        lines = self._jvm.java.util.Collections.singletonList(line).iterator()
        try:
            self._store.write(self._path(where), lines, False, self._conf)
        except Exception as error:
            if "java.nio.file.FileAlreadyExistsException" not in str(error):
                raise
            return False
        return True

    def names_from(self, where: str) -> list[str]:
        """Return the names of the files in the log from one name on."""
        found = self._store.listFrom(self._path(where), self._conf)
        return [file.getPath().getName() for file in iter(lambda: found.next() if found.hasNext() else None, None)]

    def race(self, where: str) -> list[str]:
        """Let two writers create a commit at the same time, and return the lines of those who created it."""
        won: list[str] = []

        def write(line: str) -> None:
            if self.write(where, line):
                won.append(line)

        threads = [threading.Thread(target=write, args=(line,)) for line in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return won


def test_exactly_one_of_two_writers_creates_a_commit_in_a_bucket(
    place: PlaceInBucket, s3_server: S3Server, s3_url: str
) -> None:
    """Of two drivers that create the same commit at the same time, one succeeds and the other is refused, even if
    answers are lost. Negative control: with a store that ignores ``If-None-Match`` both succeed.
    """
    log = f"{place.where}/_delta_log"
    with fault_proxy(s3_server.endpoint, seed=1) as proxy:
        store = LogStore(place.spark, proxy)
        proxy.meets = re.compile(r".*_delta_log/.*")
        _one_wins(store, log, range(4))
        proxy.let_go()
        proxy.lose_share = 0.3
        _one_wins(store, log, range(4, 16))
        assert proxy.made["lost"] > 0
        proxy.lose_share = 0.0
        proxy.overwrites = connect("the server itself")
        assert [store.write(f"{log}/{16:020}.json", line) for line in ("one", "two")] == [True, True]


def _one_wins(store: LogStore, log: str, numbers: range) -> None:
    for number in numbers:
        (won,) = store.race(f"{log}/{number:020}.json")
        assert tree_at(log).read(f"{number:020}.json") == f"{won}\n".encode()


@pytest.mark.storage
def test_a_late_writer_adds_no_row_to_a_table_in_a_bucket(place: PlaceInBucket, tmp_path: Path) -> None:
    """A batch whose rows are still being computed when the next writer raises its fence is not committed, and the next
    writer continues the table.
    """
    old = opened(place, 1)
    old.write(place.batch(("a", 1)), 0)
    (error,) = write_slowly(place, old, lambda: opened(place, 2), tmp_path)
    assert isinstance(error, Fenced)
    opened(place, 3).write(place.batch(("b", 2)), 1)
    assert place.rows() == [("a", 1), ("b", 2)]


@pytest.mark.storage
def test_the_log_is_listed_from_the_wanted_commit_on(place: PlaceInBucket, s3_server: S3Server) -> None:
    """Delta gets the files of the log from the wanted one on, in order; a missing log is reported as missing."""
    writer = opened(place, 1)
    for number in range(11):
        writer.write(place.batch((f"c{number:02}", number)), number)
    log = f"{place.where}/_delta_log"
    everything = [name for name in tree_at(log).fresh().names("") if not name.endswith("/")]
    assert f"{10:020}.checkpoint.parquet" in everything
    with fault_proxy(s3_server.endpoint) as proxy:
        asked: list[str] = []
        proxy.heard = lambda request: asked.append(request.path)
        store = LogStore(place.spark, proxy)
        for first in (f"{0:020}.", f"{10:020}.", f"{11:020}.json", f"{99:020}."):
            assert store.names_from(f"{log}/{first}") == [name for name in everything if name >= first]
        assert all("start-after=" in path for path in asked if "list-type=2" in path and "max-keys" not in path)
        with pytest.raises(Exception, match="FileNotFoundException"):
            store.names_from(f"{place.where}/elsewhere/_delta_log/{0:020}.")


@pytest.mark.storage
def test_a_removal_of_a_shadow_can_be_repeated(place: PlaceInBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the removal of a shadow is interrupted, nobody takes the rest for a table, and a second removal leaves no
    object behind.
    """
    writer = opened(place, 1)
    writer.write(place.batch(("a", 1)), 0)
    shadow = opened(place, 2, "v0002", role=WriterRole.SHADOW)
    shadow.write(place.batch(("x", 9)), 0)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(S3Tree, "look", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            shadow.discard()
    with pytest.raises(StoreUnavailable, match="lacks commit"):
        read_record(tree_at(f"{place.where}/_streamkeeper/v0002"))
    assert writer.read_record().last == {"v0001": 0}
    shadow.discard()
    assert [path for path in tree_at(place.where).look().files if path.startswith("_streamkeeper")] == []
    assert place.rows() == [("a", 1)]


def test_a_bucket_that_drivers_do_not_reach_is_refused(place: PlaceInBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table on S3 is refused if the installation's checkpoints are elsewhere, if another class than the driver's own
    would create its commits, and if s3a and boto3 use different servers.
    """
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(InvalidInput, match="the job's fs.s3a endpoint differs from AWS_ENDPOINT_URL"):
        place.sink.rehearse(place.batch(("a", 1)))
    jvm: Any = place.spark._jvm
    conf, key = jvm.org.apache.spark.SparkEnv.get().conf(), KEY.format("s3a")
    before = conf.get(key)
    conf.remove(key)
    try:
        for found in ("", "io.delta.storage.S3SingleDriverLogStore"):
            if found:
                conf.set(key, found)
            with pytest.raises(InvalidInput, match="is on s3a://, but the installation's checkpoints are not"):
                place.sink.rehearse(place.batch(("a", 1)))
    finally:
        conf.set(key, before)
