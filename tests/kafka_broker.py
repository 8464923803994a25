"""A real Kafka broker (KRaft, one process) for the tests marked ``kafka``: started once, on local ports, and stopped.

Its programs are the jars that ``make connectors`` fetches.
"""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

CONNECTORS = Path(sys.prefix) / "connectors"
_START_S = 90.0


class KafkaBroker:
    """A running broker at ``servers``; every call returns once the broker has done it."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin: AdminClient | None = None

    @property
    def admin(self) -> AdminClient:
        """A client for everything that is no record."""
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.servers, "logger": _quiet()})
        return self._admin

    def create_topic(self, name: str = "", *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A new topic; its name, made up where none is given."""
        from confluent_kafka.admin import NewTopic

        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self.admin.create_topics([topic])[name].result(30)
        return name

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all it holds."""
        self.admin.delete_topics([name])[name].result(30)

    def produce(self, topic: str, values: Iterable[object], *, partition: int = 0, at_ms: int = 0) -> None:
        """Append values to a partition, as JSON; ``at_ms``: the records' own time, 0 for now."""
        from confluent_kafka import Producer

        failed: list[str] = []
        producer = Producer({"bootstrap.servers": self.servers, "acks": "all", "logger": _quiet()})
        for value in values:
            producer.produce(
                topic,
                json.dumps(value).encode(),
                partition=partition,
                timestamp=at_ms,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        assert failed == []

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> None:
        """Remove the records below an offset, as retention does."""
        from confluent_kafka import TopicPartition

        asked = TopicPartition(topic, partition, before)
        ((_, future),) = self.admin.delete_records([asked]).items()
        assert future.result(30).low_watermark == before

    def range_of(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        """The oldest offset that is held, and the next one to be written."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "tests", "logger": _quiet()})
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        finally:
            consumer.close()
        return low, high


@contextmanager
def running_broker(home: Path) -> Iterator[KafkaBroker]:
    """A broker with all of its files in ``home``; raises AssertionError, with the end of its log, when it ends."""
    port, controller = _free_ports(2)
    config = home / "server.properties"
    settings = {**_SETTINGS, "log.dirs": str(home / "data")}
    settings["listeners"] = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
    settings["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
    settings["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    cluster = uuid.uuid4().hex[:22]
    with (home / "log").open("wb") as log:
        made = subprocess.run(
            [*_java(home), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environ,
            timeout=_START_S,
        )
        assert made.returncode == 0, (home / "log").read_text()[-2000:]
        process = subprocess.Popen(
            [*_java(home), "kafka.Kafka", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ
        )
    try:
        broker = KafkaBroker(f"127.0.0.1:{port}")
        _wait(broker, process, home / "log")
        yield broker
    finally:
        process.kill()  # nothing of it is kept
        process.wait(10)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A broker without topics; skips, with the reason, where its jars were not fetched."""
    if not any((CONNECTORS / "broker").glob("kafka_*.jar")) or not any((CONNECTORS / "kafka").glob("*.jar")):
        pytest.skip("no Kafka jars (make connectors)")
    home = Path(tempfile.mkdtemp(prefix="streamkeeper-kafka-"))
    try:
        with running_broker(home) as broker:
            yield broker
    finally:
        shutil.rmtree(home, ignore_errors=True)


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


def _java(home: Path) -> list[str]:
    java = shutil.which("java", path=str(Path(os.environ["JAVA_HOME"]) / "bin") if "JAVA_HOME" in os.environ else None)
    assert java is not None, "no java"
    small = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", f"-Djava.io.tmpdir={home}"]
    return [java, *small, "-cp", f"{CONNECTORS / 'broker'}/*"]


def _wait(broker: KafkaBroker, process: subprocess.Popen[bytes], log: Path) -> None:
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + _START_S
    while True:
        assert process.poll() is None, f"the broker ended: {log.read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"the broker does not answer: {log.read_text()[-2000:]}"
        try:
            if broker.admin.list_topics(timeout=1).brokers:
                return
        except KafkaException:
            time.sleep(0.1)


def _quiet() -> logging.Logger:
    """librdkafka tells every attempt to reach a broker that is still starting on stderr."""
    logger = logging.getLogger("librdkafka")
    logger.setLevel(logging.CRITICAL)
    return logger


def _free_ports(count: int) -> list[int]:
    """Free ports below the ephemeral range, so that no outgoing connection takes one in the meantime."""
    found: list[int] = []
    candidates = list(range(20000, 32000))
    random.shuffle(candidates)
    for port in candidates:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("no free ports between 20000 and 32000")
