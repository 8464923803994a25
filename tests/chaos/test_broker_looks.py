"""The checks of the broker campaign find the damage they are for, and its broker really dies, freezes, and returns with
every record.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec
import pyarrow
import pyarrow.parquet
import pytest

from chaos.broker_bed import TOPIC, MortalBroker
from chaos.broker_stage import read_topic_accounts
from chaos.watching import Watch, find_steps_back, sum_in_file
from harness.kafka_broker import has_jars
from harness.topic_feed import PARTITIONS, Event, Feed, make_events, read_events
from harness.topic_ledger import counts_of
from harness.waiting import wait_for
from streamkeeper.model.coding import to_json
from streamkeeper.sinks.file import EpochFile

EVENTS = list(itertools.islice(make_events(seed=1, customers=4), 60))


class Site:
    """The sent events and the three outputs, as the job leaves them."""

    def __init__(self, root: Path) -> None:
        self.sent, self.output = root / "events.jsonl", root / "output"
        self.sent.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in EVENTS))
        self.version = self.output / "copies/v0001"
        (self.version / "_spark_metadata").mkdir(parents=True)
        epochs = self.output / "copies/_streamkeeper/epochs"
        epochs.mkdir(parents=True)
        claim = EpochFile(epoch=1, owner="ledgers/copies", version="v0001", file_format="parquet")
        (epochs / "0000000001.json").write_bytes(to_json(claim))
        with closing(sqlite3.connect(self.output / "warehouse.db")) as connection:
            connection.execute("CREATE TABLE event_counts (customer, minute, events INTEGER, amount INTEGER)")

    def count(self, events: list[Event]) -> None:
        rows = [(*key, each.count, each.total) for key, each in counts_of(events).items()]
        with closing(sqlite3.connect(self.output / "warehouse.db")) as connection:
            connection.execute("DELETE FROM event_counts")
            connection.executemany("INSERT INTO event_counts VALUES (?, ?, ?, ?)", rows)
            connection.commit()

    def copy(self, events: list[Event]) -> None:
        part = self.version / "part.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"event_id": [each.event_id for each in events]}), part)
        entry = json.dumps({"path": part.as_uri(), "size": 1, "action": "add"})
        (self.version / "_spark_metadata/0").write_text(f"v1\n{entry}")

    def audit(self, *batches: tuple[int, list[Event]]) -> None:
        lines = [{"epoch": 1, "batch": batch, "ids": [each.event_id for each in events]} for batch, events in batches]
        (self.output / "audit.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))

    def differences(self) -> dict[str, tuple[int, int]]:
        """Return output -> lost and duplicated events, for outputs that are not clean."""
        accounts = read_topic_accounts(self.sent, self.output)
        return {each.name: (each.lost, each.duplicated) for each in accounts if not each.clean}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.count(EVENTS)
    site.copy(EVENTS)
    site.audit((0, EVENTS[:20]), (1, EVENTS[20:]), (1, EVENTS[20:]))
    return site


def test_complete_outputs_are_reported_as_clean(site: Site) -> None:
    """Complete outputs are reported as clean, also if the audit contains a batch twice under the same id."""
    assert site.differences() == {}


def test_a_lost_event_is_found_in_each_output(site: Site) -> None:
    """A lost event is found in each of the three outputs, even if it is the last one that was sent."""
    site.count(EVENTS[:-1])
    site.copy(EVENTS[:-1])
    site.audit((0, EVENTS[:-1]))
    assert site.differences() == {"counts": (1, 0), "copies": (1, 0), "audit": (1, 0)}


def test_a_duplicated_event_is_found_in_each_output(site: Site) -> None:
    """A duplicated event is found in each of the three outputs; in the audit, an event in a second batch counts as a
    duplicate.
    """
    site.count([*EVENTS, EVENTS[-1]])
    site.copy([*EVENTS, EVENTS[0]])
    site.audit((0, EVENTS), (1, EVENTS[:1]))
    assert site.differences() == {"counts": (0, 1), "copies": (0, 1), "audit": (0, 1)}


def test_a_decreasing_event_count_in_the_serving_table_is_detected(site: Site) -> None:
    """A reader of the serving table detects that the sum of its events decreases."""
    with Watch(partial(sum_in_file, site.output / "warehouse.db", "event_counts", "events")) as watch:
        time.sleep(0.3)
        site.count(EVENTS[:10])
        time.sleep(0.3)
    assert find_steps_back(watch.sights) == ["a reader saw a sum of 10 after 60"]


@pytest.mark.storage
@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_a_killed_and_frozen_broker_holds_every_event_exactly_once(tmp_path: Path) -> None:
    """A broker that is killed, restarted and frozen keeps its earlier records and receives the events that were sent
    during the outage, each exactly once.
    """
    if not has_jars():
        pytest.skip("no Kafka jars (make connectors)")
    broker = MortalBroker(tmp_path / "broker")
    stop = threading.Event()
    try:
        broker.start()
        broker.client.create_topic(TOPIC, partitions=PARTITIONS)
        feed = Feed(broker.client.servers, TOPIC, tmp_path / "events.jsonl")
        pace = {"rows": 5, "every_s": 0.1, "stop": stop}
        writer = threading.Thread(target=feed.run, kwargs=pace)
        writer.start()
        wait_for("events", lambda: len(read_events(tmp_path / "events.jsonl")) > 20, timeout_s=30)
        broker.kill()
        assert not broker.client.answers()
        broker.start()
        broker.freeze_for(2.0)
        stop.set()
        writer.join(150)
        held = sum(broker.client.range_of(TOPIC, partition=each)[1] for each in range(PARTITIONS))
        assert held == len(read_events(tmp_path / "events.jsonl"))
        assert feed.undelivered == 0
    finally:
        stop.set()
        broker.kill()
