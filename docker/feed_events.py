"""Makes the example's topic and writes events to it, as jobs/event_counts.py reads them, until SIGTERM."""

from __future__ import annotations

import argparse
import json
import random
import signal
import threading
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PARTITIONS = 2
_CUSTOMERS = 10
_KINDS = ("sale", "return", "visit")
_DELIVERY_S = 60.0


def make_topic(servers: str, topic: str) -> None:
    """Raises KafkaException unless it is there then."""
    # Named: a client that nothing refers to any more ends, and its answers with it.
    admin = AdminClient({"bootstrap.servers": servers})
    try:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def make_event(chance: random.Random, now: datetime) -> dict[str, object]:
    """One that happens now."""
    return {
        "event_id": uuid.uuid4().hex,
        "customer": f"c{chance.randrange(_CUSTOMERS):03d}",
        "kind": chance.choice(_KINDS),
        "amount": chance.randrange(1, 1000),
        "at": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def feed(servers: str, topic: str, *, per_second: float, acknowledged: Path, stop: threading.Event) -> int:
    """How many the broker has acknowledged once ``stop`` is set; each of them touches ``acknowledged``."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20})
    chance, delivered = random.Random(), 0

    def count(error: KafkaError | None, _message: object) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1
            acknowledged.touch()

    due = time.monotonic()
    while not stop.wait(max(0.0, due - time.monotonic())):
        event = make_event(chance, datetime.now(UTC))
        try:
            producer.produce(topic, json.dumps(event).encode(), key=str(event["customer"]), on_delivery=count)
        except BufferError:
            # The broker is down, and what waits for it is all that there is room for.
            producer.poll(1.0)
        producer.poll(0)
        due = max(due + 1 / per_second, time.monotonic() - 1)
    producer.flush(_DELIVERY_S)
    return delivered


def main(arguments: Sequence[str] | None = None) -> int:
    """Feed until asked to end."""
    parser = argparse.ArgumentParser(prog="feed_events", description="Keep writing events to a topic.")
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--per-second", type=float, default=20)
    parser.add_argument("--told", type=Path, required=True, help="file that is touched by every acknowledged event")
    chosen = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    # What an earlier run has told says nothing of this one.
    chosen.told.unlink(missing_ok=True)
    make_topic(chosen.servers, chosen.topic)
    delivered = feed(chosen.servers, chosen.topic, per_second=chosen.per_second, acknowledged=chosen.told, stop=stop)
    print(f"{delivered} events delivered", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
