"""Runs the broker and the producer of the Kafka demos, and waits until a job has read all produced events."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from demo.kafka.jobs import TOPIC
from demo.playing import Ledger
from harness.kafka_broker import KafkaBroker, command_of, make_broker, wait_for_broker
from harness.places import Places
from harness.processes import is_running
from harness.system import System
from harness.topic_feed import PARTITIONS, Event, read_events
from harness.waiting import wait_until
from streamkeeper.errors import DeployFailed, StillWaiting

BROKER, _FEED = "kafka", "feed"


@dataclass(frozen=True, slots=True)
class Topic:
    """A broker with one topic, and the producer that writes to the topic."""

    system: System
    broker: KafkaBroker

    @classmethod
    def made_for(cls, system: System) -> Topic:
        """Return a topic whose broker is prepared but not started; raises NotFound or InvalidInput."""
        return cls(system, make_broker(_home(system.places)))

    def start(self) -> None:
        """Start the broker, create the topic, and start the producer."""
        self.start_broker()
        self.broker.create_topic(TOPIC, partitions=PARTITIONS)
        file = _file(self.system.places)
        command = [sys.executable, "-m", "harness.topic_feed", self.broker.servers, TOPIC, str(file)]
        self.system.start_process(_FEED, command)

    def start_broker(self) -> None:
        """Start the broker, or restart it with its existing data."""
        home = _home(self.system.places)
        started = self.system.start_process(BROKER, command_of(home))
        wait_for_broker(self.broker, Path(started.log), lambda: is_running(started))

    def stop_feed(self) -> None:
        """Stop the producer after the broker has received all events; raises DeployFailed if it did not receive all of
        them.
        """
        self.system.stop_process(_FEED, grace_s=150)
        log = (self.system.places.root / f"{_FEED}.log").read_text().strip()
        produced = len(produced_events(self.system.places))
        if log.splitlines()[-1:] != [f"{produced} events delivered"]:
            raise DeployFailed(f"{produced} events were written down, and the feed says: {log or 'nothing'}")


def produced_events(places: Places) -> Sequence[Event]:
    """Return the events that the producer has recorded so far."""
    return read_events(_file(places))


def wait_until_read(places: Places, ledger: Ledger, *, after: str, timeout_s: float = 180) -> int:
    """Wait until all events produced so far have reached the output; return their number.

    Raises StillWaiting after the deadline; ``after`` names the preceding event in its message.
    """
    behind = len(produced_events(places))

    def caught_up() -> bool:
        return all(account.produced - account.in_flight >= behind for account in ledger())

    if not wait_until(caught_up, timeout_s=timeout_s, poll_s=0.5):
        raise StillWaiting(f"what was produced did not come out within {timeout_s:.0f} s of {after}")
    return behind


def _home(places: Places) -> Path:
    return places.root / "broker"


def _file(places: Places) -> Path:
    return places.root / "produced.jsonl"
