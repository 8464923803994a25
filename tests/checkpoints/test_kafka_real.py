"""Checkpoints of queries on a real Kafka topic: copied, seeded, rehearsed, and checked after the topic has deleted
records.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from harness.kafka_broker import KafkaBroker, running_broker
from harness.waiting import wait_for
from streamkeeper import ForeachBatch, Query, TableSink
from streamkeeper.checkpoints.cloning import clone_last_batch
from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.seeding import REBASED, seed, seed_start
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.checkpoints.unneeded_files import plan_retired
from streamkeeper.driver.preflight import look_at_history, look_at_sources, present_topics
from streamkeeper.driver.queries import ServedQuery
from streamkeeper.errors import OtherTopic
from streamkeeper.inspection import clones, kafka_topics
from streamkeeper.inspection.diverted import run_next, run_planned
from streamkeeper.inspection.rehearsal import OUT_OF_REACH, Rehearsal, rehearse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

NEW_ID = "5f2b1c0e-0000-4000-8000-000000000001"
Rows = dict[int, list[tuple[object, ...]]]


class Topic:
    """A topic of two partitions, and queries that read it four records at a time."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker) -> None:
        self.spark = spark
        self.broker = broker
        self.name = broker.create_topic(partitions=2)

    def put(self, count: int) -> None:
        """Produce this number of records in each partition."""
        for partition in (0, 1):
            self.broker.produce(self.name, [{"n": n} for n in range(count)], partition=partition)

    def read(self, **options: str) -> DataFrame:
        given = {"subscribe": self.name, "kafka.bootstrap.servers": self.broker.servers, **options}
        reader: Any = self.spark.readStream.format("kafka").options(startingOffsets="earliest", maxOffsetsPerTrigger=4)
        return reader.options(**given).load().select("partition", "offset")

    def counted(self) -> DataFrame:
        return self.read().groupBy("partition").count()

    def query(self, root: Path, **options: str) -> Query:
        """The stateless query, with a sink table that does not exist yet."""
        sink = TableSink(f"sqlite:///{root}/warehouse.db", table="records", key=["partition", "offset"])
        return Query("records", self.read(**options), sink=sink, output_mode="append", trigger="availableNow")


@pytest.fixture
def topic(kafka: KafkaBroker, spark: SparkSession) -> Topic:
    return Topic(spark, kafka)


def run(frame: DataFrame, checkpoint: Path) -> Rows:
    """Read everything available and return batch -> its rows."""
    found: Rows = {}

    def take(rows: DataFrame, batch: int) -> None:
        found[batch] = sorted(tuple(row) for row in rows.collect())

    writer: Any = frame.writeStream.option("checkpointLocation", str(checkpoint)).outputMode("update")
    running = writer.foreachBatch(take).trigger(availableNow=True).start()
    assert running.awaitTermination(240)
    return found


def copied(checkpoint: Path, batch: int, target: Path) -> Path:
    """Copy the closed set of a batch."""
    for each in closed_set(LocalTree(checkpoint), batch):
        (target / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(checkpoint / each, target / each)
    return target


@pytest.mark.parametrize("stateful", [False, True])
def test_a_copy_of_a_closed_set_continues_at_the_exact_record(topic: Topic, tmp_path: Path, *, stateful: bool) -> None:
    """A copy of a batch's closed set continues at the exact record: a stateless query yields the same rows after that
    batch, a stateful one the same final counts.
    """
    frame = topic.counted() if stateful else topic.read()
    topic.put(4)
    done = run(frame, tmp_path / "live")
    assert list(done) == [0, 1]
    copies = {batch: copied(tmp_path / "live", batch, tmp_path / f"copy-{batch}") for batch in (1, 0)}
    topic.put(4)
    done |= run(frame, tmp_path / "live")
    assert list(done) == [0, 1, 2, 3]
    assert examine(LocalTree(tmp_path / "live"), stateful=stateful) == ()
    assert "sources/0/0" in plan_retired(LocalTree(tmp_path / "live"), 1).kept
    for batch, path in copies.items():
        again = run(frame, path)
        after = [row for number, rows in sorted(done.items()) if number > batch for row in rows]
        assert min(again) == batch + 1
        if stateful:
            assert dict(again[max(again)]) == dict(done[3])
        else:
            assert sorted(row for rows in again.values() for row in rows) == sorted(after)


@pytest.mark.parametrize("way", ["keep", "rebase", "start"])
def test_a_seeded_version_reads_every_record_after_its_batch_once(topic: Topic, tmp_path: Path, way: str) -> None:
    """A version that is seeded after a batch reads every later record once, with kept numbers, with new numbers, and
    with start offsets only.
    """
    topic.put(4)
    live, seeded = tmp_path / "live", tmp_path / "seeded"
    read = run(topic.read(), live)
    if way == "start":
        seed_start(LocalTree(live), LocalTree(seeded), 0, query_id=NEW_ID)
    else:
        seed(LocalTree(live), LocalTree(seeded), 0, number=REBASED if way == "rebase" else 0, query_id=NEW_ID)
    shutil.copytree(seeded, tmp_path / "without")
    topic.put(2)
    everything = sorted((partition, offset) for partition in (0, 1) for offset in range(6))
    gone_on = [row for rows in run(topic.read(), seeded).values() for row in rows]
    assert sorted([*read[0], *gone_on]) == everything
    if way == "start":
        (tmp_path / "without/sources/0/0").unlink()
        again = [row for rows in run(topic.read(), tmp_path / "without").values() for row in rows]
        assert sorted(again) == everything, "it is that file alone that says where to begin"


def test_a_batch_whose_records_are_gone_is_not_rehearsed(topic: Topic, tmp_path: Path) -> None:
    """A rehearsal reruns the last batch while its records exist; once they were deleted, it runs nothing and still
    passes; negative control: that batch would fail.
    """
    topic.put(4)
    query, live = topic.query(tmp_path), tmp_path / "v0001"
    run(topic.read(), live)
    ran = rehearse(topic.spark, query, LocalTree(live), str(tmp_path / "scratch"), timeout_s=120)
    assert (ran.ok, ran.batch, ran.message) == (True, 1, "")
    for partition in (0, 1):
        topic.broker.delete_records(topic.name, 4, partition=partition)
    not_run = rehearse(topic.spark, query, LocalTree(live), str(tmp_path / "scratch"), timeout_s=120)
    assert (not_run.ok, not_run.batch) == (True, None)
    assert f"batch 1 did not run again: {topic.name} partition 0: offsets 2 to 3 are gone" in not_run.message
    assert list(look_at_sources(query, LocalTree(live), served=False)) == []
    # Without that look the batch would fail, though everything was read.
    clone_last_batch(LocalTree(live), LocalTree(tmp_path / "clone"))
    fault = run_planned(query, LocalTree(tmp_path / "clone"), timeout_s=120).fault
    assert fault is not None
    assert fault.error_class == "OffsetOutOfRangeException"


def told(topic: Topic, query: Query, checkpoint: Path) -> list[str]:
    """Return the evidence of the findings that forbid a start."""
    return [each.evidence for each in look_at_sources(query, LocalTree(checkpoint), served=False)]


def test_a_start_is_refused_if_the_topic_lacks_the_next_records(topic: Topic, tmp_path: Path) -> None:
    """A start is refused with the missing offsets per partition if the topic lacks records that come next, and also if
    the topic was deleted or recreated.
    """
    topic.put(4)
    query, live = topic.query(tmp_path), tmp_path / "v0001"
    run(topic.read(), live)
    topic.put(6)
    topic.broker.delete_records(topic.name, 4, partition=1)
    assert told(topic, query, live) == []
    topic.broker.delete_records(topic.name, 9, partition=0)
    (finding,) = look_at_sources(query, LocalTree(live), served=False)
    assert (finding.rule, finding.severity.name) == ("source-no-longer-holds-offsets", "FATAL")
    assert finding.evidence == f"{topic.name} partition 0: offsets 4 to 8 are gone"
    (live / "commits/1").unlink()  # the open batch needs its own records
    assert told(topic, query, live) == [
        f"{topic.name} partition 0: offsets 2 to 8 are gone; {topic.name} partition 1: offsets 2 to 3 are gone"
    ]
    assert last_committed(LocalTree(live)) == 0

    another = Topic(topic.spark, topic.broker).query(tmp_path)
    assert told(topic, another, live) == [], "what it does not read any more is no matter"
    topic.broker.delete_topic(topic.name)
    assert told(topic, query, live) == [f"topic {topic.name} does not exist"]
    topic.broker.create_topic(topic.name)
    assert told(topic, query, live) == [
        f"{topic.name} has no partition 1; {topic.name} partition 0: it ends at 0, before 2: the topic was recreated"
    ]


def test_a_recreated_topic_is_detected_by_its_topic_id(topic: Topic, tmp_path: Path) -> None:
    """A recreated topic with enough records is found by its topic id, for a start and for a rebuild; negative control:
    by offsets alone nothing is found, and Spark would skip records.
    """
    topic.put(4)
    query, live = topic.query(tmp_path), tmp_path / "v0001"
    run(topic.read(), live)
    before = kafka_topics.topic_ids(query)
    assert list(before) == [topic.name]
    topic.put(1)
    assert kafka_topics.topic_ids(query) == before
    topic.broker.delete_topic(topic.name)
    topic.broker.create_topic(topic.name, partitions=2)
    topic.put(6)
    assert told(topic, query, live) == [], "the negative control: without the ids nothing is found"
    (finding,) = look_at_sources(query, LocalTree(live), served=False, topics=before)
    assert (finding.rule, finding.severity.name) == ("source-topic-created-again", "OPAQUE")
    assert finding.evidence.startswith(f"topic {topic.name} was deleted and created again")
    assert list(look_at_history(query, LocalTree(live))) == [], "the negative control: the offsets are there"
    present = present_topics(query)
    assert present.keys() == before.keys()
    assert present != before
    (gone,) = look_at_history(query, LocalTree(live), topics=before, present=present)
    assert (gone.rule, gone.evidence) == ("history-gone", finding.evidence), "a rebuild would lack the old records"
    with pytest.raises(OtherTopic, match="query records cannot continue: topic .* was deleted and created again"):
        kafka_topics.must_be_the_same("records", before, kafka_topics.topic_ids(query))
    assert run(topic.read(), live) == {
        2: [(0, 4), (0, 5), (1, 4), (1, 5)],
    }, "what would happen: the first four records of each partition are never read"


def test_a_query_restarted_in_its_driver_is_refused_on_another_topic(topic: Topic, tmp_path: Path) -> None:
    """A query that restarts within its driver is refused if the topic was recreated in between; negative control:
    without topic ids it skips the new topic's first eight records.
    """
    topic.put(4)
    of = topic.query(tmp_path)
    planned: Any = SimpleNamespace(query=of, manifest=SimpleNamespace(confs={}), confs={})
    continuity: Any = SimpleNamespace(check_start=lambda: None, note_start=lambda _: None)
    written: list[int] = []
    gate: Any = lambda rows, _: written.append(rows.count())  # noqa: E731
    unused: Any = None
    checkpoint, topics = LocalTree(tmp_path / "v0001"), kafka_topics.topic_ids(of)
    given: Any = (planned, unused, checkpoint, gate, continuity, tmp_path, unused, unused, topics)
    query: Any = ServedQuery(*given)
    for _ in range(2):
        query.start()
        assert query._run.awaitTermination(120)
    topic.broker.delete_topic(topic.name)
    topic.broker.create_topic(topic.name, partitions=2)
    topic.put(6)
    with pytest.raises(OtherTopic, match="query records cannot continue: topic .* was deleted and created again"):
        query.start()
    with pytest.raises(OtherTopic):
        ServedQuery(*given, compared=False).start()  # a new driver, whose brokers did not answer at first
    assert sum(written) == 8
    query.topics = {}
    query.start()
    assert query._run.awaitTermination(120)
    assert sum(written) == 12, "the negative control: without the ids, the new topic's first eight records are left out"


def test_the_ids_of_a_pattern_are_those_of_its_topics(topic: Topic, tmp_path: Path) -> None:
    """For a topic pattern, the ids of all matching topics are read, also of topics created later; a pattern that only
    Java can parse yields no ids.
    """
    read = topic.spark.readStream.format("kafka").option("kafka.bootstrap.servers", topic.broker.servers)
    query = replace(topic.query(tmp_path), df=read.option("subscribePattern", f"{topic.name}.*").load())
    topic.broker.create_topic()
    later = topic.broker.create_topic(f"{topic.name}-later")
    assert list(kafka_topics.topic_ids(query)) == sorted([topic.name, later])
    (gone,) = look_at_history(query, LocalTree(tmp_path / "v0001"), topics={later: "another"})
    assert gone.evidence.startswith(f"topic {later} was deleted"), "it joined after the checkpoint's first batch"
    for_java = read.option("subscribePattern", rf"{topic.name}\Q-later\E").load()
    assert kafka_topics.topic_ids(replace(query, df=for_java)) == {}


def test_missing_offsets_need_approval_if_fail_on_data_loss_is_false(topic: Topic, tmp_path: Path) -> None:
    """With ``failOnDataLoss`` false, missing offsets need a person's approval instead of a refusal, while a deleted
    topic is still refused.
    """
    topic.put(4)
    query, live = topic.query(tmp_path, failOnDataLoss="false"), tmp_path / "v0001"
    run(topic.read(), live)
    topic.put(6)
    topic.broker.delete_records(topic.name, 9, partition=0)
    (finding,) = look_at_sources(query, LocalTree(live), served=False)
    assert (finding.rule, finding.severity.name) == ("source-offsets-passed-over", "OPAQUE")
    assert finding.evidence == f"{topic.name} partition 0: offsets 4 to 8 are gone"
    topic.broker.delete_topic(topic.name)
    (finding,) = look_at_sources(query, LocalTree(live), served=False)
    assert (finding.rule, finding.severity.name) == ("source-no-longer-holds-offsets", "FATAL")


def test_before_the_first_commit_the_records_at_the_start_offsets_must_exist(topic: Topic, tmp_path: Path) -> None:
    """Before the first commit, the records from the query's start offsets on must exist, because the planned first
    batch reads them.
    """
    topic.put(2)
    query, live = topic.query(tmp_path), tmp_path / "v0001"
    run(topic.read(), live)
    shutil.rmtree(live / "commits")
    topic.broker.delete_records(topic.name, 1)
    assert told(topic, query, live) == [f"{topic.name} partition 0: offsets 0 to 0 are gone"]


def test_unreachable_brokers_are_not_reported_as_lost_records(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers that do not answer are reported as out of reach, not as lost records, both by the check of sources and by
    a rehearsal.
    """
    monkeypatch.setattr(kafka_topics, "_CLIENT", {"default.api.timeout.ms": "1500", "request.timeout.ms": "1000"})
    topic.put(1)
    live = tmp_path / "v0001"
    run(topic.read(), live)
    query = topic.query(tmp_path, **{"kafka.bootstrap.servers": "127.0.0.1:1"})
    (finding,) = look_at_sources(query, LocalTree(live), served=False)
    assert (finding.rule, finding.severity.name) == ("source-out-of-reach", "FATAL")
    assert "Kafka at 127.0.0.1:1 does not answer: TimeoutException" in finding.evidence
    found = rehearse(topic.spark, query, LocalTree(live), str(tmp_path / "scratch"), timeout_s=120)
    assert (found.ok, found.error_class) == (False, OUT_OF_REACH)


def test_a_broker_failure_during_a_rehearsal_is_not_blamed_on_the_candidate(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the broker dies while a rehearsed batch fails, the rehearsal reports the sources as out of reach; negative
    control: with a live broker, the batch's own error is reported.
    """
    from pyspark.sql import functions as F

    monkeypatch.setattr(kafka_topics, "_CLIENT", {"default.api.timeout.ms": "1500", "request.timeout.ms": "1000"})

    def failing(victim: int) -> Callable[[int], int]:
        def fail(_offset: int) -> int:
            # A rehearsal stops a function that kills: it waits for a broker that the test kills.
            while victim and is_running(victim):
                time.sleep(0.1)
            raise ValueError("no")

        def is_running(pid: int) -> bool:
            try:
                return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
            except FileNotFoundError:
                return False

        return fail

    def kill_once_read(victim: int) -> None:
        wait_for("a job of Spark's", spark.sparkContext.statusTracker().getActiveJobsIds)
        # A batch that has not read its record yet asks the dead broker for two minutes: slow, and the same outcome.
        time.sleep(8)
        os.kill(victim, signal.SIGKILL)

    def rehearsed(topic: Topic, victim: int) -> Rehearsal:
        frame = topic.read().withColumn("offset", F.udf(failing(victim), "long")("offset"))
        query = replace(topic.query(tmp_path), df=frame)
        return rehearse(spark, query, LocalTree(tmp_path / topic.name), str(tmp_path / "scratch"), timeout_s=120)

    with running_broker(tmp_path / "broker") as mortal:
        topics = [Topic(spark, kafka), Topic(spark, mortal)]
        for each in topics:
            each.put(1)
            run(each.read(), tmp_path / each.name)
        (victim,) = (each.pid for each in psutil.Process().children() if str(tmp_path) in " ".join(each.cmdline()))
        alone = rehearsed(topics[0], 0)
        with ThreadPoolExecutor(1) as pool:
            killed = pool.submit(kill_once_read, victim)
            together = rehearsed(topics[1], victim)
            killed.result()
    assert alone.error_class not in ("", OUT_OF_REACH)
    assert together.error_class == OUT_OF_REACH, together.message


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_clone_takes_no_partition_from_the_owners_group(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, protected: bool
) -> None:
    """With deprecated offset fetching, a clone does not join the owner's consumer group, which would take partitions
    from the owner; negative control: without the clone's confs it joins.
    """
    if not protected:
        monkeypatch.setattr(clones, "clone_confs", dict)
    topic.put(1)
    session = topic.spark.newSession()
    session.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    group = f"owner-{topic.name}"
    reader: Any = session.readStream.format("kafka").option("kafka.bootstrap.servers", topic.broker.servers)
    reader = reader.option("startingOffsets", "earliest").option("kafka.group.id", group)
    frame = reader.option("subscribe", topic.name).load().select("offset")
    sink = ForeachBatch(lambda batch, context: None)
    found = run_next(Query("records", frame, sink=sink), LocalTree(tmp_path / "clone"), timeout_s=120)
    assert (found.fault, found.rows) == (None, {0: 2})
    assert (group in groups_of(topic)) != protected


def groups_of(topic: Topic) -> str:
    """Return a text with every consumer group that the broker has seen."""
    jvm: Any = topic.spark._jvm
    properties = jvm.java.util.HashMap()
    properties.put("bootstrap.servers", topic.broker.servers)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        return str(admin.listConsumerGroups().all().get().toString())
    finally:
        admin.close()
