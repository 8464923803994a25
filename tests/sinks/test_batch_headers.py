"""Tests that readers of a topic can drop the records that a replay has replaced, and no other record."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from harness.kafka_broker import KafkaBroker
from harness.places import ROOT
from harness.waiting import wait_for
from streamkeeper import KafkaSink, newest_attempts
from streamkeeper.errors import InvalidInput
from streamkeeper.jvm.task_classes import load_task_class
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks import batch_headers
from streamkeeper.sinks.batch_headers import HEADERS, NAMES, PREFIX, TASK_CLASS, with_batch_headers
from streamkeeper.sinks.contract import SinkContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Record(NamedTuple):
    """A record with the headers of a KafkaSink, of a query of its own for each case."""

    value: str
    batch: int
    epoch: int = 1
    version: str = "v0001"
    lineage: str = ""
    write: int = 0
    partition: int = 0
    attempt: int = 0
    installation: str = "a1"

    def headers(self, job: str) -> list[tuple[str, bytes]]:
        """Return the headers, as Kafka has them."""
        fields = {**self._asdict(), "job": job, "query": "totals", "lineage": self.lineage or self.version}
        return [(f"{PREFIX}{name}", str(fields[name]).encode()) for name in NAMES]


CASES: dict[str, tuple[list[Record], str]] = {
    "each batch once": ([Record("a", 0), Record("b", 1), Record("c", 1, partition=1, attempt=1)], "abc"),
    "a repeated task": (
        [Record("a", 0, attempt=1), Record("x", 0, partition=1, attempt=2), Record("b", 0, partition=1, attempt=10)],
        "ab",
    ),
    "a write repeated with fewer partitions": (
        [
            *(Record("x", 0, attempt=1), Record("y", 0, partition=1, attempt=2)),
            Record("a", 0, write=1, attempt=3),
            Record("b", 1, write=2, attempt=4),
        ],
        "ab",
    ),
    "a batch replayed by the next driver": (
        [Record("a", 0), Record("x", 1), Record("y", 1, partition=1), Record("b", 1, epoch=2), Record("c", 2, epoch=2)],
        "abc",
    ),
    "a late record of a superseded driver": ([Record("a", 0, epoch=2), Record("x", 0, epoch=1, attempt=99)], "a"),
    "attempts are numbers": ([Record("x", 0, epoch=9), Record("a", 0, epoch=10)], "a"),
    "a handoff after a killed batch": (
        [
            *(Record("a", 0), Record("b", 1), Record("x", 2)),
            Record("c", 2, epoch=2, version="v0002", lineage="v0001:1,v0002"),
        ],
        "abc",
    ),
    "a handoff whose batches start at zero": (
        [
            *(Record("a", 0), Record("b", 1)),
            Record("c", 0, epoch=2, version="v0002", lineage="v0001:1,v0002"),
            Record("d", 1, epoch=3, version="v0002", lineage="v0001:1,v0002"),
        ],
        "abcd",
    ),
    "a handoff from a version that never committed": (
        [Record("x", 0), Record("a", 0, epoch=2, version="v0002", lineage="v0001:-1,v0002")],
        "a",
    ),
    "a return to an earlier version": (
        [
            *(Record("a", 0), Record("b", 1)),
            Record("x", 2, epoch=2, version="v0002", lineage="v0001:1,v0002"),
            Record("y", 3, epoch=2, version="v0002", lineage="v0001:1,v0002"),
            Record("c", 2, epoch=3),
        ],
        "abc",
    ),
    "a restore to an earlier batch": (
        [
            *(Record("a", 0), Record("x", 1), Record("y", 2)),
            Record("b", 1, epoch=2, version="v0002", lineage="v0001:0,v0002"),
        ],
        "ab",
    ),
    "a restore after a handoff": (
        [
            Record("a", 0),
            *(Record(value, batch, 2, "v0002", "v0001:0,v0002") for value, batch in (("b", 1), ("x", 2))),
            Record("c", 2, 3, "v0003", "v0001:0,v0002:1,v0003"),
        ],
        "abc",
    ),
    "a restore after a rebuild that did not know the parent": (
        [
            *(Record("a", 5), Record("b", 0, 2, "v0002", "v0001:5,v0002"), Record("x", 1, 2, "v0002", "v0001:5,v0002")),
            *(Record("y", 2, 3, "v0002"), Record("c", 1, 4, "v0003", "v0002:0,v0003")),
        ],
        "abc",
    ),
    "a restore of an older version after a rebuild that did not know the parent": (
        [
            *(Record("a", 20), Record("x", 41), Record("y", 0, 2, "v0002", "v0001:41,v0002")),
            *(Record("z", 45, 3, "v0002"), Record("b", 21, 4, "v0003", "v0001:20,v0003")),
        ],
        "ab",
    ),
    "a batch replayed after a rebuild that did not know the parent": (
        [Record("a", 0), Record("x", 1, 2, "v0002", "v0001:0,v0002"), Record("b", 1, 3, "v0002")],
        "ab",
    ),
    "a version without a parent": ([Record("a", 5, epoch=3), Record("b", 0, epoch=4, version="v0002")], "ab"),
    "another installation of the same names": (
        [Record("a", 0, epoch=7), Record("b", 0, epoch=1, installation="b2")],
        "ab",
    ),
}
"""Name -> the records of one query, and the values of those that count."""


@pytest.fixture(scope="module")
def counted(spark: SparkSession) -> dict[str, str]:
    """Case -> the values that ``newest_attempts`` returns, in order, from one frame with the records of all cases."""
    rows = [(job, each.value, each.headers(job)) for job, (records, _) in CASES.items() for each in records]
    frame = spark.createDataFrame(rows, f"job string, value string, headers {HEADERS}").repartition(2)
    found: dict[str, list[str]] = {}
    for row in newest_attempts(frame).collect():
        found.setdefault(row.job, []).append(row.value)
    return {job: "".join(sorted(values)) for job, values in found.items()}


@pytest.mark.parametrize("case", CASES)
def test_only_the_records_that_no_replay_has_replaced_are_returned(counted: dict[str, str], case: str) -> None:
    """Of the records of a query, those that no later attempt, write, epoch or lineage has replaced are returned, each
    once; the records of other queries and installations do not matter.
    """
    assert counted[case] == CASES[case][1]


def framed(spark: SparkSession, *records: Record) -> DataFrame:
    """Return a frame with these records of one query."""
    rows = [(each.value, each.headers("sales")) for each in records]
    return spark.createDataFrame(rows, f"value string, headers {HEADERS}")


def test_records_that_only_one_of_the_two_readings_has_are_judged_like_all_others(spark: SparkSession) -> None:
    """A record of a newer epoch that came after the newest lineages were read counts only if these lineages have its
    batch. So a return to an earlier version does not count next to the version that it replaces.
    """
    first, left = Record("a", 0), Record("b", 1, 2, "v0002", "v0001:0,v0002")
    returned, resumed = Record("x", 1, 3), Record("c", 2, 3, "v0002", "v0001:0,v0002")
    judges = framed(spark, first, left)
    for late, values in ((returned, "ab"), (resumed, "abc")):
        found = batch_headers._filtered(framed(spark, first, left, late), judges).collect()
        assert "".join(sorted(row.value for row in found)) == values


def test_the_headers_name_a_version_that_never_committed() -> None:
    """The lineage in the headers names a parent that ended before its first commit, with -1, so readers drop the part
    of its batch 0 that was sent.
    """
    context = SinkContext(
        job="sales",
        query="totals",
        version="v0002",
        epoch=2,
        serving=(OutputSegment("v0002"),),
        lineage=(OutputSegment("v0001", -1), OutputSegment("v0002")),
    )
    batch: Any = SimpleNamespace(columns=["value"], selectExpr=lambda *expressions: expressions)
    _, headers = with_batch_headers(batch, context, 0, 0)
    assert f"'{PREFIX}lineage', 'value', X'{b'v0001:-1,v0002'.hex()}'" in headers


def test_records_without_the_headers_of_a_sink_are_returned_unchanged(spark: SparkSession) -> None:
    """Records without headers, with other headers, or with an incomplete or unreadable set of a sink's headers are
    returned unchanged, also twice; so are the frame's columns.
    """
    complete = Record("a", 0).headers("sales")
    unreadable = [(name, b"one" if name.endswith(".epoch") else value) for name, value in complete]
    strange: list[Any] = [None, [], [("trace", b"1")], complete[:-1], complete[::-1], unreadable]
    rows = [(f"{number}", headers, 1.5) for number, headers in enumerate(strange)] * 2
    frame = spark.createDataFrame(rows, f"value string, headers {HEADERS}, score double")
    found = newest_attempts(frame)
    assert found.columns == frame.columns
    assert sorted(row.value for row in found.collect()) == sorted(row[0] for row in rows)


def test_a_frame_in_which_no_record_can_be_judged_is_refused(spark: SparkSession) -> None:
    """A frame without headers, and a streaming frame, are refused with the remedy."""
    with pytest.raises(InvalidInput, match="includeHeaders"):
        newest_attempts(spark.range(1))
    with pytest.raises(InvalidInput, match=r"spark\.read"):
        newest_attempts(spark.readStream.format("rate").load())


@pytest.fixture
def topic(spark: SparkSession, kafka: KafkaBroker) -> Topic:
    load_task_class(spark, TASK_CLASS)
    return Topic(spark, kafka, kafka.create_topic(partitions=2))


class Topic(NamedTuple):
    """A topic of a real broker."""

    spark: SparkSession
    broker: KafkaBroker
    name: str

    def write(
        self, batch: int, values: str, epoch: int = 1, *, fails: bool = False, serving: tuple[OutputSegment, ...] = ()
    ) -> None:
        """Send a batch of two Spark partitions as a writer of this epoch. ``fails``: the second partition fails after
        its first rows.
        """
        context = SinkContext(
            job="sales",
            query="totals",
            version=serving[-1].version if serving else "v0001",
            epoch=epoch,
            serving=serving,
            installation="a1",
        )
        half = len(values) // 2
        first, second = (
            self.spark.createDataFrame([(each,) for each in part], "value string").coalesce(1)
            for part in (values[:half], values[half:])
        )
        if fails:
            lost = f"CASE WHEN value = '{values[-1]}' THEN raise_error('lost') ELSE value END AS value"
            second = second.selectExpr(lost)
        KafkaSink(self.broker.servers, self.name).open(context).write(first.union(second), batch)

    @property
    def records(self) -> DataFrame:
        """All records of the topic."""
        options = {"kafka.bootstrap.servers": self.broker.servers, "subscribe": self.name, "includeHeaders": "true"}
        return self.spark.read.format("kafka").options(**options).load()

    def values(self, records: DataFrame) -> str:
        """Return the values of records, in order."""
        return "".join(sorted(bytes(row.value).decode() for row in records.select("value").collect()))


@pytest.mark.kafka
def test_a_batch_that_failed_halfway_counts_once_after_its_replay(topic: Topic) -> None:
    """A batch that failed after some of its records, and that the next driver replays, counts once. Negative control:
    without the filter, its first records are there twice.
    """
    topic.write(0, "abcd")
    with pytest.raises(Exception, match="lost"):
        topic.write(1, "efgh", fails=True)
    topic.write(1, "efgh", epoch=2)
    assert topic.values(newest_attempts(topic.records)) == "abcdefgh"
    seen = topic.values(topic.records)
    assert len(seen) > len(set(seen)) == 8


@pytest.mark.kafka
def test_a_handoff_a_return_and_a_restore_count_each_row_once(topic: Topic) -> None:
    """Each row counts once after a handoff, after a return to the version before it, and after a restore to an earlier
    batch. Negative control: without the filter, the rows of replayed batches are there twice.
    """
    first, second = OutputSegment("v0001"), OutputSegment("v0002")
    topic.write(0, "abcd", serving=(first,))
    topic.write(1, "efgh", serving=(first,))
    topic.write(1, "efgh", 2, serving=(OutputSegment("v0001", 0), second))
    topic.write(2, "ijkl", 2, serving=(OutputSegment("v0001", 0), second))
    assert topic.values(newest_attempts(topic.records)) == "abcdefghijkl"
    topic.write(1, "efghijkl", 3, serving=(first,))
    assert topic.values(newest_attempts(topic.records)) == "abcdefghijkl"
    restored = (OutputSegment("v0001", 0), OutputSegment("v0003"))
    topic.write(1, "efgh", 4, serving=restored)
    assert topic.values(newest_attempts(topic.records)) == "abcdefgh"
    topic.write(2, "ijkl", 4, serving=restored)
    assert topic.values(newest_attempts(topic.records)) == "abcdefghijkl"
    assert len(topic.values(topic.records)) == 32


@contextmanager
def sending(topic: Topic, epoch: int, how: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a Spark of its own that sends batch 0 under this epoch, as ``sending_process`` describes."""
    command = [sys.executable, "-m", "tests.sinks.sending_process", topic.broker.servers, topic.name, str(epoch), how]
    paths = os.pathsep.join((str(ROOT / "plugins"), str(ROOT)))
    environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def sent(topic: Topic) -> int:
    """Return the number of records that the topic has."""
    return sum(topic.broker.range_of(topic.name, partition=number)[1] for number in range(2))


@pytest.mark.storage
@pytest.mark.kafka
def test_a_batch_of_a_killed_process_counts_once_after_its_replay(topic: Topic) -> None:
    """A driver's processes are killed while they send a batch. After another process has replayed the batch under the
    next epoch, each row counts once. Negative control: without the filter, some rows are there twice.
    """
    with sending(topic, 1, "slowly") as process:
        wait_for("the first records", lambda: sent(topic) >= 20, timeout_s=180)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    before = sent(topic)
    assert 20 <= before < 600
    with sending(topic, 2, "at-once") as process:
        assert process.wait(240) == 0
    assert sent(topic) == before + 600
    found = [bytes(row.value) for row in newest_attempts(topic.records).select("value").collect()]
    assert sorted(found) == sorted(str(number).encode() for number in range(600))


@pytest.mark.storage
@pytest.mark.kafka
def test_the_records_of_a_repeated_task_count_once(topic: Topic) -> None:
    """A task fails after it has sent some records, and Spark repeats it. Each row counts once. Negative control:
    without the filter, some rows are there twice.
    """
    with sending(topic, 1, "with-a-failure") as process:
        assert process.wait(240) == 0
    assert sent(topic) > 600
    found = [bytes(row.value) for row in newest_attempts(topic.records).select("value").collect()]
    assert sorted(found) == sorted(str(number).encode() for number in range(600))
