"""A process that keeps writing events to a topic, and writes down beside it what it has written.

``python -m harness.topic_feed SERVERS TOPIC FILE [--per-second N]`` until SIGTERM; it ends once the broker has them
all. Events of one customer go to one partition, one after the other in their own time, so that none is ever late.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from harness.kafka_broker import quiet

PARTITIONS = 2
_BEGAN = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
_BETWEEN_EVENTS = datetime.timedelta(seconds=0.25)
_AT_ONCE = 10
_DELIVERY_S = 120.0


class Event(msgspec.Struct, frozen=True):
    """An event as the jobs read it: ``at`` is ISO 8601, in UTC."""

    event_id: str
    customer: str
    kind: str
    amount: int
    at: str

    @property
    def partition(self) -> int:
        """Return the partition to which the events of this customer go."""
        return int(self.customer[1:]) % PARTITIONS

    @property
    def minute(self) -> str:
        """Return the minute of the event, such as ``2026-03-01 00:07``."""
        return self.at[:16].replace("T", " ")


def make_events(*, seed: int, customers: int) -> Iterator[Event]:
    """Yield events without end; the event time of each is a quarter of a second after that of the one before."""
    chance = random.Random(seed)
    at = _BEGAN
    number = 0
    while True:
        customer = f"c{chance.randrange(customers):03d}"
        kind, amount = chance.choice(("sale", "return", "visit")), chance.randrange(1, 1000)
        yield Event(f"e{number:07d}", customer, kind, amount, at.strftime("%Y-%m-%dT%H:%M:%SZ"))
        at += _BETWEEN_EVENTS
        number += 1


def read_events(file: Path) -> list[Event]:
    """Return the events recorded in the file, without a line that is still being written."""
    whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
    decoder = msgspec.json.Decoder(Event)
    return [decoder.decode(line) for line in whole.splitlines()]


class Feed:
    """Writes events to a topic, each one to ``file`` before it is sent; the event time continues over all runs of a
    feed.

    ``sent``: how many events were sent; ``undelivered``: how many of them the broker has never acknowledged.
    """

    def __init__(self, servers: str, topic: str, file: Path) -> None:
        self._servers, self._topic, self._file = servers, topic, file
        self._events = make_events(seed=3, customers=10)
        self.sent = self.undelivered = 0

    def run(self, *, rows: int, every_s: float, stop: threading.Event) -> None:
        """Send ``rows`` events every ``every_s`` seconds until ``stop`` is set; return once the broker has received
        them all, or after two minutes.
        """
        from confluent_kafka import Producer

        failed: list[str] = []
        # Idempotent: a broker that restarts gets each event once, in its order.
        settings: dict[str, Any] = {"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 20}
        producer: Any = Producer({**settings, "logger": quiet()})
        with self._file.open("ab", buffering=0) as written:
            while not stop.wait(every_s):
                some = [next(self._events) for _ in range(rows)]
                # Written down first: what a reader has seen of the topic stands there already.
                written.write(b"".join(msgspec.json.encode(each) + b"\n" for each in some))
                for each in some:
                    producer.produce(
                        self._topic,
                        json.dumps(msgspec.structs.asdict(each)).encode(),
                        partition=each.partition,
                        on_delivery=lambda error, _: failed.append(str(error)) if error else None,
                    )
                producer.poll(0)
                self.sent += rows
        self.undelivered += producer.flush(_DELIVERY_S) + len(failed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Feed the topic until a SIGTERM or SIGINT arrives."""
    parser = argparse.ArgumentParser(prog="harness.topic_feed", description="Keep writing events to a topic.")
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("file", type=Path)
    parser.add_argument("--per-second", type=float, default=60)
    chosen = parser.parse_args(arguments)
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    feed = Feed(chosen.servers, chosen.topic, chosen.file)
    feed.run(rows=_AT_ONCE, every_s=_AT_ONCE / chosen.per_second, stop=stop)
    if feed.undelivered:
        raise SystemExit(f"{feed.undelivered} of {feed.sent} events were never acknowledged")
    print(f"{feed.sent} events delivered", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
