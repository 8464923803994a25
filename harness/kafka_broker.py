"""A real Kafka broker (KRaft, one process) on local ports, run from the jars that ``make connectors`` fetches.

Its directory keeps its ports and its records after the process has stopped: a process that is restarted there is the
same broker.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.processes import free_ports
from harness.waiting import wait_for
from streamkeeper.errors import InvalidInput, NotFound, StillWaiting

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

CONNECTORS = Path(sys.prefix) / "connectors"
_START_S = 90.0


class KafkaBroker:
    """A broker at ``servers``; every call returns only after the broker has completed the request."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin: AdminClient | None = None

    @property
    def admin(self) -> AdminClient:
        """Return a client for administration, such as creating topics."""
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            settings: dict[str, Any] = {"bootstrap.servers": self.servers, "logger": quiet()}
            self._admin = AdminClient(settings)
        return self._admin

    def answers(self) -> bool:
        """Return whether the broker answers a request for its topics."""
        from confluent_kafka import KafkaException

        try:
            return bool(self.admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def create_topic(self, name: str = "", *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic and return its name; without a name, one is generated."""
        from confluent_kafka.cimpl import NewTopic

        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self.admin.create_topics([topic])[name].result(30)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all of its records."""
        self.admin.delete_topics([name])[name].result(30)

    def produce(self, topic: str, values: Iterable[object], *, partition: int = 0, at_ms: int = 0) -> None:
        """Append values to a partition: bytes as they are, all others as JSON.

        ``at_ms``: the timestamp of the records in milliseconds, or 0 for the current time.
        """
        from confluent_kafka import Producer

        failed: list[str] = []
        producer = Producer({"bootstrap.servers": self.servers, "acks": "all", "logger": quiet()})
        for value in values:
            producer.produce(
                topic,
                value if isinstance(value, bytes) else json.dumps(value).encode(),
                partition=partition,
                timestamp=at_ms,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        assert failed == []

    def read(self, topic: str, *, partition: int = 0) -> list[bytes]:
        """Return the values of all records of a partition, in order; a record without a value counts as empty."""
        from confluent_kafka import Consumer, TopicPartition

        low, high = self.range_of(topic, partition=partition)
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "read", "logger": quiet()})
        values: list[bytes] = []
        try:
            consumer.assign([TopicPartition(topic, partition, low)])
            while low + len(values) < high:
                for record in consumer.consume(high - low - len(values), timeout=30):
                    assert record.error() is None
                    values.append(record.value() or b"")
        finally:
            consumer.close()
        return values

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> None:
        """Delete the records below the offset ``before``, as retention does."""
        from confluent_kafka import TopicPartition

        asked = TopicPartition(topic, partition, before)
        ((_, future),) = self.admin.delete_records([asked]).items()
        assert future.result(30).low_watermark == before

    def range_of(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        """Return the oldest offset of a partition and the next offset to be written."""
        from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "range", "logger": quiet()})

        def ask() -> tuple[int, int] | None:
            try:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            except KafkaException as error:
                # A broker begins to lead a partition a moment after it has created the topic.
                if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                    raise
                return None
            return low, high

        try:
            found = wait_for("a leader of the partition", ask)
        finally:
            consumer.close()
        assert found is not None
        return found


def has_jars() -> bool:
    """Return whether ``make connectors`` has fetched the jars that a broker and its readers need."""
    return any((CONNECTORS / "broker").glob("kafka_*.jar")) and any((CONNECTORS / "kafka").glob("*.jar"))


def make_broker(home: Path) -> KafkaBroker:
    """Choose ports, and write a broker's settings and its empty log into ``home``; the broker is not started.

    Raises NotFound if the jars or Java are missing, InvalidInput if the log cannot be created.
    """
    if not has_jars():
        raise NotFound("Kafka's jars are not there", hint="make connectors")
    home.mkdir(parents=True, exist_ok=True)
    port, controller = free_ports(2)
    settings = {**_SETTINGS, "log.dirs": str(home / "data")}
    settings["listeners"] = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
    settings["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
    settings["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
    _config(home).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    cluster = uuid.uuid4().hex[:22]
    made = subprocess.run(
        [*_java(home), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(_config(home))],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=_environment(home),
        timeout=_START_S,
        check=False,
    )
    if made.returncode != 0:
        raise InvalidInput(f"the broker's log cannot be made: {(made.stdout + made.stderr)[-2000:]}")
    return KafkaBroker(f"127.0.0.1:{port}")


def command_of(home: Path) -> list[str]:
    """Return the command that starts the broker of ``home``."""
    return [*_java(home), "kafka.Kafka", str(_config(home))]


def launch_broker(home: Path) -> subprocess.Popen[bytes]:
    """Start the broker of ``home`` without waiting for it; its output is appended to ``home/log``."""
    with (home / "log").open("ab") as log:
        return subprocess.Popen(
            command_of(home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(home),
            start_new_session=True,
        )


def wait_for_broker(broker: KafkaBroker, log: Path, is_running: Callable[[], bool]) -> None:
    """Return once the broker answers; raises InvalidInput if it exits, StillWaiting if it takes too long."""
    deadline = time.monotonic() + _START_S
    while not broker.answers():
        if not is_running():
            raise InvalidInput(f"the broker ended: {log.read_text()[-2000:]}")
        if time.monotonic() > deadline:
            raise StillWaiting(f"the broker does not answer: {log.read_text()[-2000:]}")
        time.sleep(0.1)


@contextmanager
def running_broker(home: Path) -> Iterator[KafkaBroker]:
    """Provide a running broker with all of its files in ``home``, and kill it at the end; raises like ``make_broker``
    and ``wait_for_broker``.
    """
    broker = make_broker(home)
    process = launch_broker(home)
    try:
        wait_for_broker(broker, home / "log", lambda: process.poll() is None)
        yield broker
    finally:
        process.kill()  # nothing of it is kept
        process.wait(10)


def quiet() -> logging.Logger:
    """Return a logger that suppresses librdkafka's messages; otherwise each attempt to connect to a starting broker is
    printed on stderr.
    """
    logger = logging.getLogger("librdkafka")
    logger.setLevel(logging.CRITICAL)
    return logger


_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.cleaner.enable": "false",
    "log.retention.check.interval.ms": "500",
}


def _environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


def _config(home: Path) -> Path:
    return home / "server.properties"


def _java(home: Path) -> list[str]:
    java = shutil.which("java", path=str(Path(os.environ["JAVA_HOME"]) / "bin") if "JAVA_HOME" in os.environ else None)
    if java is None:
        raise NotFound("there is no java", hint="make setup")
    small = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", f"-Djava.io.tmpdir={home}"]
    return [java, *small, "-cp", f"{CONNECTORS / 'broker'}/*"]
