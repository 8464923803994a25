"""Compares the signals of real queries with Spark's own progress JSON, and checks what a real driver reports of
them.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from harness.kafka_broker import KafkaBroker
from harness.processes import free_ports
from harness.waiting import wait_for
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.progress import EventListener, StatusReporter
from streamkeeper.driver.source_looks import SourceLooks
from streamkeeper.driver.timings import Timings
from streamkeeper.driver.wakeups import Wakeups
from streamkeeper.inspection.kafka_topics import HeldTopics, kafka_readings
from streamkeeper.model.protocol.driver_messages import DriverState, QueryStatus
from streamkeeper.model.protocol.signals import QuerySignals
from streamkeeper.sources.kafka import Held, runway_s
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore
from tests.driver.driver_house import DriverHouse, standby_spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TRIGGER_S = 1.0
Batches = list[dict[str, Any]]


class Listened:
    """A query with the driver's own listener attached; ``told`` holds the signals that the status board had after each
    batch.
    """

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.root = root
        self.spark: Any = spark
        self.store = CountingStore(LocalStore(root / "store"))
        line = DriverChannel(self.store, "sales", "first", 1)
        self.board = StatusReporter(standby_spec("first", "r0001"), 1, Timings(), line)
        self.board.put(QueryStatus(query="q", version="v0001", epoch=1, signals=QuerySignals(trigger_s=TRIGGER_S)))
        self.told: dict[int, QuerySignals] = {}
        self._listener = EventListener(self.board, Timings(), Wakeups(), lambda run: "q")
        noted = self.board.note_trigger

        def note(query: str, progress: Any) -> None:
            noted(query, progress)
            if progress is not None:
                self.told[progress.batchId] = self.signals()

        self.board.note_trigger = note  # type: ignore[method-assign]

    def signals(self) -> QuerySignals:
        return self.board.compose().queries["q"].signals

    def run(self, frame: DataFrame, until: Callable[[Batches], bool], *, mode: str = "append") -> Batches:
        """Run the query until Spark's own progress satisfies ``until``, and return Spark's progress of each batch."""
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(self.spark.sparkContext._gateway)
        wrapper = self.spark._jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self._listener)
        self.spark._jsparkSession.streams().addListener(wrapper)
        writer: Any = frame.writeStream.queryName("q").outputMode(mode)
        writer = writer.option("checkpointLocation", str(self.root / "checkpoint"))
        query = writer.foreachBatch(lambda rows, _: rows.count()).trigger(processingTime="1 second").start()
        try:
            wait_for("Spark's batches", lambda: until(told_by(query)))
            batches = told_by(query)
            wait_for("the driver's", lambda: batches[-1]["batchId"] in self.told, 30)
            return batches
        finally:
            query.stop()
            self.spark._jsparkSession.streams().removeListener(wrapper)


def told_by(query: Any) -> Batches:
    """Return the progress of every batch that Spark remembers, parsed from its JSON."""
    return [json.loads(each.json()) for each in query._jsq.recentProgress() if "addBatch" in each.json()]


def assert_equal_to_sparks(batches: Batches, told: dict[int, QuerySignals]) -> None:
    """Compute each signal independently from Spark's JSON and compare it with the reported one."""
    dropped = 0
    for number, spark in enumerate(batches):
        seen, took = told[spark["batchId"]], spark["durationMs"]
        begun = datetime.fromisoformat(spark["timestamp"]).timestamp()
        operators = spark["stateOperators"]
        commit = max((each["commitTimeMs"] for each in operators), default=0)
        dropped += sum(each["numRowsDroppedByWatermark"] for each in operators)
        assert seen.batch == spark["batchId"]
        assert seen.batch_s == took["triggerExecution"] / 1000
        usual = [each["durationMs"]["triggerExecution"] / 1000 for each in batches[: number + 1]]
        assert seen.usual_batch_s == pytest.approx(statistics.median(usual))
        assert seen.trigger_s == TRIGGER_S
        assert seen.input_rows_per_s == spark.get("inputRowsPerSecond", 0.0)
        assert seen.processed_rows_per_s == spark.get("processedRowsPerSecond", 0.0)
        wrote = took["walCommit"] + took["commitOffsets"] + min(commit, took["addBatch"])
        assert seen.checkpoint_write_s == pytest.approx(wrote / 1000)
        assert seen.state_rows == sum(each["numRowsTotal"] for each in operators)
        assert seen.state_memory_bytes == sum(each["memoryUsedBytes"] for each in operators)
        assert seen.dropped_rows == dropped
        assert seen.last_commit == pytest.approx(begun + took["triggerExecution"] / 1000, abs=0.002)
        assert [each.source for each in seen.sources] == [each["description"] for each in spark["sources"]]
        if number:
            before = batches[number - 1]
            ended = (
                datetime.fromisoformat(before["timestamp"]).timestamp()
                + before["durationMs"]["triggerExecution"] / 1000
            )
            if ended > begun // 1 and begun - ended < 0.05:
                assert seen.scheduling_delay_s > 0
            began = datetime.fromisoformat(before["timestamp"]).timestamp()
            assert 0 <= seen.scheduling_delay_s <= max(begun - began, TRIGGER_S) + 0.002


def test_signals_of_a_stateful_file_query_match_spark_progress(spark: SparkSession, tmp_path: Path) -> None:
    """Every signal of every batch of a stateful file query equals the value computed from Spark's progress, including
    dropped late rows; the source also reports how many files wait and for how long.
    """
    from pyspark.sql import functions as F

    arriving = tmp_path / "in"
    arriving.mkdir()
    minutes = [0, 10, 20, 1, 30, 40]
    for number, minute in enumerate(minutes):
        path = arriving / f"f{number}.csv"
        path.write_text(f"{number},2026-01-01 00:{minute:02d}:00\n{number},2026-01-01 00:{minute:02d}:30\n")
        os.utime(path, (time.time() - 600 + number, time.time() - 600 + number))
    read: Any = spark.readStream.schema("k int, t timestamp").option("maxFilesPerTrigger", 1).csv(str(arriving))
    counts = read.withWatermark("t", "1 minute").groupBy(F.window("t", "5 minutes"), "k").count()
    listened = Listened(spark, tmp_path)
    batches = listened.run(counts, lambda told: sum(each["numInputRows"] for each in told) == 2 * len(minutes))
    assert_equal_to_sparks(batches, listened.told)
    last = listened.signals()
    assert last.dropped_rows > 0
    for wrong in ({"dropped_rows": 0}, {"checkpoint_write_s": 0.0}, {"last_commit": time.time() + 1}):
        number = batches[-1]["batchId"]
        with pytest.raises(AssertionError):
            assert_equal_to_sparks(batches, {**listened.told, number: replace(last, **wrong)})
    assert last.state_memory_bytes > 0

    for number in range(3):
        path = arriving / f"late{number}.csv"
        path.write_text("1,2026-01-01 01:00:00\n")
        os.utime(path, (time.time() - 100, time.time() - 100))
    SourceLooks(listened.board, look_s=0.1).add(served(read, tmp_path / "checkpoint"))
    wait_for("the files that wait", lambda: bool(listened.signals().sources[0].lag_files), 30)
    (source,) = listened.signals().sources
    assert (source.lag_files, source.lag_records, source.runway_s) == (3, None, None)
    assert source.lag_s is not None
    assert 100 <= source.lag_s < 200
    size = sum(each.stat().st_size for each in (tmp_path / "checkpoint").rglob("*") if each.is_file())
    assert listened.signals().checkpoint_bytes == size


class Served:
    """Stands in for a running query, with the attributes that the source checks read."""

    def __init__(self, frame: DataFrame, checkpoint: Path) -> None:
        self.name, self.checkpoint = "q", LocalTree(checkpoint)
        manifest = SimpleNamespace(sources=(), confs={})
        self.planned = SimpleNamespace(query=SimpleNamespace(name="q", df=frame), manifest=manifest)
        self.topics: dict[str, str] = {}
        self.note_topics = self.topics.update
        self.refused: list[Exception] = []
        self.refuse_input = self.refused.append


def served(frame: DataFrame, checkpoint: Path) -> Any:
    return Served(frame, checkpoint)


@pytest.fixture
def topic(kafka: KafkaBroker) -> Iterator[str]:
    name = kafka.create_topic(partitions=2)
    yield name
    kafka.delete_topic(name)


def reading(spark: SparkSession, kafka: KafkaBroker, topic: str) -> DataFrame:
    given = {"subscribe": topic, "kafka.bootstrap.servers": kafka.servers, "startingOffsets": "earliest"}
    reader: Any = spark.readStream.format("kafka").options(maxOffsetsPerTrigger=6, **given)
    return reader.load()


@pytest.mark.kafka
def test_signals_of_a_kafka_query_report_lag_and_detect_a_recreated_topic(
    spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Kafka query's lag is the sum over its partitions, in records and in seconds at the observed read rate. A topic
    that is deleted and created again with as many records is detected and refused.
    """
    for partition in (0, 1):
        kafka.produce(topic, range(20), partition=partition)
    listened = Listened(spark, tmp_path)
    frame = reading(spark, kafka, topic)
    batches = listened.run(frame, lambda told: sum(each["numInputRows"] for each in told) >= 24)
    assert_equal_to_sparks(batches, listened.told)
    for each in batches:
        (source,), (seen,) = each["sources"], listened.told[each["batchId"]].sources
        lag = sum(source["latestOffset"][topic][one] - source["endOffset"][topic][one] for one in ("0", "1"))
        assert seen.lag_records == lag == 40 - 6 * (each["batchId"] + 1)
        before = [one["durationMs"]["triggerExecution"] / 1000 for one in batches if one["batchId"] <= each["batchId"]]
        spent = sum(max(TRIGGER_S, one) for one in before)
        assert seen.lag_s == pytest.approx(lag * spent / (6 * len(before)))
    asked: list[object] = []
    ask = HeldTopics.ask
    monkeypatch.setattr(HeldTopics, "ask", lambda *given: asked.append(found := ask(*given)) or found)
    query = served(frame, tmp_path / "checkpoint")
    SourceLooks(listened.board, look_s=0.1).add(query)
    wait_for("a first look", lambda: bool(asked), 30)
    assert listened.signals().runway_s is None
    _drop(kafka, topic, 6 * len(batches) // 2 - 1)
    wait_for("the runway", lambda: (listened.signals().runway_s or 0) > 0, 30)
    assert query.refused == []
    assert list(query.topics) == [topic]
    kafka.delete_topic(topic)
    kafka.create_topic(topic, partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, range(20), partition=partition)
    wait_for("the refusal", lambda: bool(query.refused), 30)
    assert f"topic {topic} was deleted and created again" in str(query.refused[0])


def _drop(kafka: KafkaBroker, topic: str, before: int) -> None:
    """Delete each partition's records before an offset, as retention does."""
    from confluent_kafka import TopicPartition

    wanted = [TopicPartition(topic, partition, before) for partition in (0, 1)]
    for each in kafka.admin.delete_records(wanted).values():
        each.result(30)


@pytest.mark.kafka
def test_topic_offsets_yield_the_retention_rate_and_the_runway(
    spark: SparkSession, kafka: KafkaBroker, topic: str
) -> None:
    """The oldest and newest offsets of each partition are read from the topic; the records that retention drops yield a
    rate, and the rate yields the runway.
    """
    frame: Any = reading(spark, kafka, topic)
    (found,) = kafka_readings(frame._jdf.queryExecution().analyzed()).values()
    topics = HeldTopics(frame.sparkSession._jvm, found)
    for partition in (0, 1):
        kafka.produce(topic, range(20), partition=partition)
    partitions = [(topic, 0), (topic, 1)]
    oldest, newest = topics.ask(partitions)
    assert oldest == dict.fromkeys(partitions, 0)
    assert newest == dict.fromkeys(partitions, 20)
    _drop(kafka, topic, 8)
    later, _ = topics.ask(partitions)
    assert later == dict.fromkeys(partitions, 8)
    before, now = Held(moment=0, oldest=oldest, newest=newest), Held(moment=800, oldest=later, newest=newest)
    assert runway_s(dict.fromkeys(partitions, 10), now, before) == pytest.approx(2 * 800 / 8)
    assert runway_s(dict.fromkeys(partitions, 5), now, before) == 0.0
    assert topics.ask([(topic, 1)]) == ({(topic, 1): 8}, {(topic, 1): 20})
    topics.close()


@pytest.mark.kafka
def test_an_unreachable_broker_does_not_block_the_other_signals(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """With an unreachable broker, the query's source reports no runway, while the lag and the checkpoint's size are
    still reported.
    """
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, range(6))
    listened = Listened(spark, tmp_path)
    frame = reading(spark, kafka, topic)
    listened.run(frame, lambda told: len(told) >= 1)
    unreachable = {"subscribe": topic, "kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "500"}
    gone: DataFrame = spark.readStream.format("kafka").options(**unreachable).load()
    SourceLooks(listened.board, look_s=0.1).add(served(gone, tmp_path / "checkpoint"))
    wait_for("its checkpoint to be weighed", lambda: bool(listened.signals().checkpoint_bytes), 30)
    time.sleep(1)
    (source,) = listened.signals().sources
    assert (source.lag_records, source.runway_s) == (0, None)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[DriverHouse]:
    house = DriverHouse(tmp_path)
    yield house
    house.close()


def test_a_driver_publishes_its_signals_and_records_a_history(house: DriverHouse) -> None:
    """A driver publishes its signals in its status and its metrics, after a batch and while idle; a history file that
    cannot be read is replaced by a new history.
    """
    house.add([("a", 1), ("b", 2)])
    port = free_ports(1)[0]
    metrics = {"STREAMKEEPER_DRIVER_METRICS": f"{port}-{port + 20}"}
    first = house.launch("first", environ={"STREAMKEEPER_CRASH": "driver.batch.written:2", **metrics})
    house.wait_state("first", DriverState.STANDBY)
    assert house.control("first").read_history() is None
    house.go("first", first, "totals")
    wait_for("a batch", lambda: signals_of(house).last_commit is not None)
    seen = signals_of(house)
    assert (seen.trigger_s, seen.batch, seen.state_rows, seen.open_since) == (0.5, 0, 2, None)
    assert seen.batch_s > 0
    assert seen.checkpoint_share < 1
    assert [each.source for each in seen.sources] == [f"FileStreamSource[file:{house.input}]"]
    told = metrics_of(house.root / "first-1.log")
    assert 'streamkeeper_state_rows{job="sales_totals",query="totals",version="v0001"} 2.0' in told
    assert 'streamkeeper_job_info{job="sales_totals",release="r0001",spark="4.2.0"} 1.0' in told
    wait_for("an idle trigger", lambda: (signals_of(house).last_trigger or 0) > (seen.last_commit or 0) + 5, 60)
    assert signals_of(house).last_commit == seen.last_commit
    history = house.control("first").read_history()
    assert history is not None
    assert [len(ring) for ring in history.queries.values()] == [1]
    house.add([("a", 5)])
    assert house.wait_exit(first) == -9
    (house.store_directory / "control/sales_totals/first/history.json").write_bytes(b"{ cut")
    house.start("first", 2)
    wait_for("the totals after the crash", lambda: house.totals() == house.oracle(), 300)
    wait_for("a history anew", lambda: house.control("first").read_history() is not None)


def metrics_of(log: Path) -> str:
    """Fetch the metrics from the URL that the driver's log contains."""
    (url,) = re.findall(
        r" streamkeeper job=.*: metrics at (http://127.0.0.1:\d+/metrics)$", log.read_text(), re.MULTILINE
    )
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def signals_of(house: DriverHouse) -> QuerySignals:
    status = house.status("first")
    assert status is not None
    return status.queries["totals"].signals if "totals" in status.queries else QuerySignals()
