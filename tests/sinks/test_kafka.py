"""Tests the declaration of a KafkaSink without a broker, and its writes with a real one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from harness.kafka_broker import KafkaBroker
from harness.processes import free_ports
from harness.waiting import wait_for
from streamkeeper import KafkaSink
from streamkeeper.driver.causes import judge
from streamkeeper.errors import InvalidInput, OutputOutOfReach
from streamkeeper.jvm.task_classes import load_task_class
from streamkeeper.model.protocol.fault_kinds import Fault, Judged
from streamkeeper.model.protocol.restart_budgets import Cause
from streamkeeper.sinks import kafka as kafka_sink
from streamkeeper.sinks import kafka_topic
from streamkeeper.sinks.batch_headers import HEADERS, TASK_CLASS
from streamkeeper.sinks.contract import SinkContext, WriterRole
from streamkeeper.sinks.kafka import check_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JAAS = 'PlainLoginModule required username="keeper" password="hunter2";'


@pytest.mark.parametrize("topic", ["", "a b", "ä", "..", ".", "x" * 250, None])
def test_a_topic_name_that_kafka_refuses_is_refused(topic: Any) -> None:
    """A topic name that Kafka refuses is refused when the sink is declared."""
    with pytest.raises(InvalidInput, match="topic name"):
        KafkaSink("host:9092", topic)


@pytest.mark.parametrize("servers", ["", "host", "host:9092,", None, "u:hunter2@h:9092", "kafka://u:hunter2@h:9092,x"])
def test_servers_without_ports_are_refused(servers: Any) -> None:
    """A list of servers with an entry that has no port, or that has a user and a password, is refused with an example
    and without the password.
    """
    with pytest.raises(InvalidInput, match='servers="host1:9092,host2:9092"') as refused:
        KafkaSink(servers, "totals")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("kafka.bootstrap.servers", "host:9092", "name the brokers in servers"),
        ("KAFKA.bootstrap.servers", "host:9092", "name the brokers in servers"),
        ("kafka.key.serializer", "x", "column key"),
        ("kafka.value.serializer", "x", "column value"),
        ("kafka.transactional.id", "x", "no transactions"),
        ("kafka.partitioner.class", "x", "column partition"),
        ("kafka.enable.idempotence", "False", "its default is true"),
        ("kafka.acks", "1", "its default is all"),
        ("topic", "others", "or remove it"),
        ("includeHeaders", "true", "or remove it"),
        ("compression.type", "lz4", "use kafka.compression.type"),
        ("kafka.linger.ms", 5, "of type int .*write it as a text"),
        ("kafka.ssl.key.password", b"hunter2", "of type bytes"),
    ],
)
def test_an_option_that_the_sink_decides_itself_is_refused(name: str, value: Any, remedy: str) -> None:
    """Options that are not Kafka's, and those that the sink decides itself, are refused with the name and the remedy,
    in any case of letters.
    """
    with pytest.raises(InvalidInput, match=remedy) as refused:
        KafkaSink("host:9092", "totals", options={name: value})
    assert name in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "options", [f"kafka.sasl.jaas.config={JAAS}", [("a", JAAS)], (("a", JAAS),), {7: JAAS}, None], ids=repr
)
def test_options_of_another_shape_are_refused_without_their_content(options: Any) -> None:
    """Options that are no dict with texts as names are refused, and the message contains none of their values."""
    with pytest.raises(InvalidInput, match=r"use (options=\{|texts as names)") as refused:
        KafkaSink("host:9092", "totals", options=options)
    assert "hunter2" not in str(refused.value)


def test_batch_headers_must_be_a_bool() -> None:
    """A text such as ``"false"``, which counts as true in Python, is refused."""
    wrong: Any = "false"
    with pytest.raises(InvalidInput, match="use batch_headers=False or True"):
        KafkaSink("host:9092", "totals", batch_headers=wrong)


def test_an_option_in_two_spellings_is_refused() -> None:
    """Two options whose names differ only in the case of letters are refused, because Spark would use one of them."""
    with pytest.raises(InvalidInput, match=r"option kafka\.linger\.ms is given twice"):
        KafkaSink("host:9092", "totals", options={"kafka.linger.ms": "1", "kafka.Linger.ms": "2"})


def test_the_writer_is_idempotent_and_waits_for_all_replicas_by_default() -> None:
    """Without options, the producer is idempotent and waits for all replicas; other options are passed on."""
    sink = KafkaSink("one:9092,two:9092", "totals", options={"kafka.Compression.type": "lz4", "kafka.acks": "-1"})
    assert sink.writer_options == {
        "kafka.acks": "-1",
        "kafka.bootstrap.servers": "one:9092,two:9092",
        "kafka.compression.type": "lz4",
        "kafka.enable.idempotence": "true",
        "topic": "totals",
    }


def test_no_secret_is_in_any_text_of_a_kafka_sink() -> None:
    """Neither the description nor the ``repr`` of a KafkaSink contains a secret; other options are in the
    description.
    """
    options = {
        "kafka.sasl.jaas.config": JAAS,
        "kafka.ssl.key.password": "hunter2",
        "kafka.registry.api.key": "hunter2",
        "kafka.linger.ms": "5",
    }
    sink = KafkaSink("host:9092", "totals", options=options)
    described = sink.describe()
    assert "hunter2" not in repr(sink) + repr(described)
    assert described.options == {"servers": "host:9092", "batch_headers": "true", "kafka.linger.ms": "5"}
    assert sink.writer_options["kafka.sasl.jaas.config"] == JAAS


def test_a_topic_is_the_same_output_at_another_address() -> None:
    """A topic is the same output at another address of its brokers; two queries may write one topic."""
    here, there = KafkaSink("one:9092", "totals"), KafkaSink("two:9092", "totals")
    assert here.describe().same_place(there.describe())
    assert not here.describe().same_place(KafkaSink("one:9092", "others").describe())
    assert not here.overlaps(there)


HEADER = StructType().add("key", StringType()).add("value", BinaryType())
TYPES: dict[str, DataType] = {
    **{"string": StringType(), "binary": BinaryType(), "int": IntegerType(), "bigint": LongType()},
    **{HEADERS: ArrayType(HEADER), "map<string,string>": MapType(StringType(), StringType())},
}


def schema(**columns: str) -> StructType:
    """Return a schema with these columns and types."""
    found = StructType()
    for name, kind in columns.items():
        found.add(name, TYPES[kind])
    return found


def test_the_columns_of_a_record_are_accepted() -> None:
    """The columns of a record are accepted in each of their types; only ``value`` is required."""
    check_columns("totals", schema(value="string"))
    check_columns("totals", schema(partition="int", headers=HEADERS, key="binary", value="binary"))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"key": "string"}, r"the query has no column value \(.*to_json"),
        ({"value": "string", "topic": "string"}, r"a column topic, .*\(remove the column"),
        ({"value": "string", "customer": "string"}, r"no place for column customer \(remove customer, or put it into"),
        ({"value": "string", "Key": "string"}, "no place for column Key"),
        ({"value": "bigint"}, r"column value is bigint, .*\(cast it to string or binary"),
        ({"value": "string", "partition": "bigint"}, r"column partition is bigint, .*\(cast it to int"),
        ({"value": "string", "headers": "map<string,string>"}, r"headers is map<string,string>, .*\(cast it to array"),
    ],
)
def test_a_column_that_spark_would_ignore_or_refuse_is_refused(columns: Mapping[str, str], told: str) -> None:
    """A column that Spark's writer would ignore, take for another topic or refuse is refused with its name and the
    remedy.
    """
    with pytest.raises(InvalidInput, match=told):
        check_columns("totals", schema(**columns))


def test_a_column_twice_is_refused() -> None:
    """Two columns of one name are refused."""
    twice = StructType(schema(value="string").fields * 2)
    with pytest.raises(InvalidInput, match="two columns value"):
        check_columns("totals", twice)


@pytest.fixture
def sending(spark: SparkSession) -> SparkSession:
    """A Spark session as a driver prepares it for a KafkaSink."""
    load_task_class(spark, TASK_CLASS)
    return spark


def context(epoch: int = 1, version: str = "v0001", **more: Any) -> SinkContext:
    """Return the context of a writer."""
    return SinkContext(job="sales", query="totals", version=version, epoch=epoch, **more)


def rows(spark: SparkSession, *values: str) -> DataFrame:
    """Return a batch of one partition with these values."""
    return spark.createDataFrame([(value,) for value in values], "value string").coalesce(1)


def read(spark: SparkSession, broker: KafkaBroker, topic: str) -> DataFrame:
    """Return all records of a topic, with their headers."""
    options = {"kafka.bootstrap.servers": broker.servers, "subscribe": topic, "includeHeaders": "true"}
    return spark.read.format("kafka").options(**options).load()


def headers_of(row: Any) -> list[tuple[str, str]]:
    """Return names and texts of a record's headers, in order."""
    return [(header.key, bytes(header.value).decode()) for header in row.headers or ()]


@pytest.mark.spark
@pytest.mark.kafka
def test_each_record_names_its_batch_after_the_headers_of_the_query(sending: SparkSession, kafka: KafkaBroker) -> None:
    """Each record has the key, value and partition of its row, the query's own headers, and then the headers that name
    its writer, batch, Spark partition and attempt. Two rows of one task name the same attempt, and a second write has
    the next number.
    """
    topic = kafka.create_topic(partitions=2)
    mine = "array(named_struct('key', 'trace', 'value', CAST(value AS BINARY))) AS headers"
    batch = rows(sending, "a", "b").selectExpr("value", "concat('k', value) AS key", "1 AS partition", mine)
    writer = KafkaSink(kafka.servers, topic).open(context(7, installation="a1"))
    writer.write(batch, 3)
    writer.write(rows(sending, "c").selectExpr("value", "CAST(NULL AS STRING) AS key"), 4)
    found = read(sending, kafka, topic).orderBy("value").collect()
    first, second, third = map(headers_of, found)
    assert [(bytes(row.value), row.key and bytes(row.key)) for row in found] == [
        *((b"a", b"ka"), (b"b", b"kb"), (b"c", None))
    ]
    assert [row.partition for row in found[:2]] == [1, 1]
    assert first[0] == ("trace", "a")
    assert first[1:] == second[1:]
    ours = {name.removeprefix("streamkeeper."): text for name, text in first[1:]}
    assert ours.pop("attempt").isdecimal()
    assert ours == {
        **{"installation": "a1", "job": "sales", "query": "totals", "version": "v0001", "lineage": "v0001"},
        **{"batch": "3", "epoch": "7", "write": "0", "partition": "0"},
    }
    assert {("streamkeeper.batch", "4"), ("streamkeeper.write", "1")} <= set(third)


@pytest.mark.spark
@pytest.mark.kafka
def test_records_without_batch_headers_have_only_the_headers_of_the_query(
    sending: SparkSession, kafka: KafkaBroker
) -> None:
    """With ``batch_headers=False``, records have only the query's own headers."""
    topic = kafka.create_topic()
    KafkaSink(kafka.servers, topic, batch_headers=False).open(context()).write(rows(sending, "a"), 0)
    (found,) = read(sending, kafka, topic).collect()
    assert (bytes(found.value), headers_of(found)) == (b"a", [])


@pytest.mark.spark
@pytest.mark.kafka
def test_a_rehearsal_and_a_shadow_compute_the_batch_and_send_nothing(sending: SparkSession, kafka: KafkaBroker) -> None:
    """A rehearsal and a writer in the role SHADOW compute the batch, which fails here, and send no record of it."""
    topic = kafka.create_topic()
    sink = KafkaSink(kafka.servers, topic)
    shadow = sink.open(context(role=WriterRole.SHADOW))
    sink.rehearse(rows(sending, "a"))
    shadow.write(rows(sending, "a"), 0)
    failing = rows(sending, "a").selectExpr("CAST(raise_error(concat('reached ', value)) AS STRING) AS value")
    for act in (lambda: sink.rehearse(failing), lambda: shadow.write(failing, 1)):
        with pytest.raises(Exception, match="reached a"):
            act()
    assert kafka.read(topic) == []


@pytest.mark.spark
@pytest.mark.kafka
def test_a_missing_topic_is_refused_and_not_created(sending: SparkSession, kafka: KafkaBroker) -> None:
    """A rehearsal and the first write refuse a topic that does not exist, with the remedy, and do not create it."""
    sink = KafkaSink(kafka.servers, "nobody-made-it")
    for act in (lambda: sink.rehearse(rows(sending, "a")), lambda: sink.open(context()).write(rows(sending, "a"), 0)):
        with pytest.raises(InvalidInput, match=r"topic nobody-made-it does not exist at .*\(create the topic"):
            act()
    assert "nobody-made-it" not in kafka.admin.list_topics(timeout=10).topics


def test_a_write_that_failed_looks_for_the_topic_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a write that failed, the next one looks for the topic again, because it may have been deleted meanwhile;
    after a write that succeeded, the next one does not. A failed write has a number, too.
    """
    looks: list[str] = []
    numbers: list[int] = []
    fails = iter([False, False, True, False, False])

    def send(*_: object) -> None:
        if next(fails):
            raise RuntimeError("no such topic")

    monkeypatch.setattr(KafkaSink, "must_have_topic", lambda *_, known: looks.append(f"look {known}"))
    monkeypatch.setattr(kafka_sink, "with_batch_headers", lambda *of: numbers.append(of[-1]))
    monkeypatch.setattr(kafka_sink, "send", send)
    writer = KafkaSink("host:9092", "totals").open(context())
    batch: Any = SimpleNamespace(schema=schema(value="string"))
    found = []
    for number in range(5):
        with suppress(RuntimeError):
            writer.write(batch, number)
        found.append(len(looks))
    assert found == [1, 1, 1, 2, 2]
    assert looks == ["look False", "look True"]
    assert numbers == [0, 1, 2, 3, 4]


@pytest.mark.spark
@pytest.mark.kafka
def test_a_topic_that_disappears_is_waited_for_and_not_created(sending: SparkSession, kafka: KafkaBroker) -> None:
    """A writer that has found its topic once waits for it like for brokers that do not answer, because a broker that
    has just started may not know its topics yet. Its write does not create the topic.
    """
    topic = kafka.create_topic()
    writer = KafkaSink(kafka.servers, topic).open(context())
    writer.write(rows(sending, "a"), 0)
    for future in kafka.admin.delete_topics([topic]).values():
        future.result(30)
    wait_for("the deletion", lambda: topic not in kafka.admin.list_topics(timeout=10).topics, timeout_s=30)
    writer._found = False
    with pytest.raises(
        OutputOutOfReach, match=rf"topic {topic} no longer exists at .*\(create the topic again"
    ) as gone:
        writer.write(rows(sending, "b"), 1)
    assert judge(gone.value) == Judged(Cause.DEPENDENCY, Fault.SINK_DOWN)
    assert topic not in kafka.admin.list_topics(timeout=10).topics


@pytest.mark.spark
@pytest.mark.kafka
def test_a_row_for_a_partition_that_the_topic_lacks_is_a_fault_of_the_job(
    sending: SparkSession, kafka: KafkaBroker
) -> None:
    """A row whose partition the topic does not have fails the batch as a fault of the job, which is not waited for like
    brokers that do not answer, although Kafka reports both as a timeout.
    """
    sink = KafkaSink(kafka.servers, kafka.create_topic(partitions=2), options={"kafka.max.block.ms": "1500"})
    with pytest.raises(Exception, match="Partition 9 of topic .* with partition count 2") as raised:
        sink.open(context()).write(rows(sending, "a").selectExpr("value", "9 AS partition"), 0)
    assert judge(raised.value).cause is Cause.FAILURE


@pytest.mark.spark
@pytest.mark.kafka
def test_an_unreadable_login_is_refused_without_any_part_of_the_password(
    sending: SparkSession, kafka: KafkaBroker
) -> None:
    """A login that Kafka cannot read is refused with the rule for passwords, and without any part of the password."""
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required password="a"hunter2";'
    options = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": login,
    }
    with pytest.raises(InvalidInput, match=r"cannot read kafka\.sasl\.jaas\.config \(put the password in") as refused:
        KafkaSink(kafka.servers, kafka.create_topic(), options=options).rehearse(rows(sending, "a"))
    assert "hunter2" not in str(refused.value)


@pytest.mark.spark
@pytest.mark.kafka
def test_a_row_with_other_columns_is_refused_by_the_rehearsal(sending: SparkSession, kafka: KafkaBroker) -> None:
    """The rehearsal of a deploy refuses a query with a column that a record does not have."""
    sink = KafkaSink(kafka.servers, kafka.create_topic())
    with pytest.raises(InvalidInput, match="no place for column total"):
        sink.rehearse(sending.createDataFrame([("a", 1)], "value string, total long"))


@pytest.mark.spark
def test_brokers_that_do_not_answer_are_a_dependency_that_is_down(
    sending: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no broker answers, the rehearsal and the first write fail as an output that is down, which is waited for; a
    later write fails in the same way with Spark's own error.
    """
    for name in ("default.api.timeout.ms", "request.timeout.ms"):
        monkeypatch.setitem(kafka_topic._CLIENT, name, "1500")
    (port,) = free_ports(1)
    sink = KafkaSink(f"127.0.0.1:{port}", "totals", options={"kafka.max.block.ms": "1500"})
    down = Judged(Cause.DEPENDENCY, Fault.SINK_DOWN)
    for act in (lambda: sink.rehearse(rows(sending, "a")), lambda: sink.open(context()).write(rows(sending, "a"), 0)):
        with pytest.raises(OutputOutOfReach, match="does not answer") as raised:
            act()
        assert judge(raised.value) == down
    writer = sink.open(context())
    writer._found = True
    with pytest.raises(Exception, match="not present in metadata") as late:
        writer.write(rows(sending, "a"), 0)
    assert judge(late.value) == down


@pytest.mark.spark
@pytest.mark.kafka
def test_a_producer_with_options_that_kafka_refuses_is_no_dependency_that_is_down(
    sending: SparkSession, kafka: KafkaBroker
) -> None:
    """An error of the producer's own options does not count as an output that is down."""
    sink = KafkaSink(kafka.servers, kafka.create_topic(), options={"kafka.compression.type": "no-such-one"})
    with pytest.raises(Exception, match="no-such-one") as raised:
        sink.open(context()).write(rows(sending, "a"), 0)
    assert judge(raised.value).cause is not Cause.DEPENDENCY


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.parametrize(
    ("name", "value"),
    [("kafka.compression.type", "no-such-one"), ("kafka.max.in.flight.requests.per.connection", "10")],
)
def test_options_that_the_producer_refuses_are_refused_by_the_rehearsal(
    sending: SparkSession, kafka: KafkaBroker, name: str, value: str
) -> None:
    """The rehearsal of a deploy refuses a value that Kafka's producer refuses, also one that is refused only together
    with the sink's own defaults. Negative control: a valid value passes.
    """
    topic = kafka.create_topic()
    with pytest.raises(InvalidInput, match=f"producer refuses an option: .*{name.removeprefix('kafka.')}"):
        KafkaSink(kafka.servers, topic, options={name: value}).rehearse(rows(sending, "a"))
    KafkaSink(kafka.servers, topic, options={"kafka.compression.type": "lz4"}).rehearse(rows(sending, "a"))


@pytest.mark.spark
@pytest.mark.kafka
def test_a_batch_in_update_mode_is_sent_row_by_row(sending: SparkSession, kafka: KafkaBroker) -> None:
    """In every output mode, each row of a batch becomes one record."""
    topic = kafka.create_topic()
    sink = KafkaSink(kafka.servers, topic)
    assert sink.output_modes == {"append", "update", "complete"}
    for number, mode in enumerate(sorted(sink.output_modes)):
        sink.open(context(output_mode=mode)).write(rows(sending, json.dumps(mode)), number)
    assert [json.loads(value) for value in kafka.read(topic)] == ["append", "complete", "update"]
