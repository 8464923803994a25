"""Tests of bundled jobs on a real Kafka topic, with a handover from one real driver to the next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import pytest

from harness.kafka_broker import KafkaBroker
from harness.waiting import wait_for
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, ExitCode
from streamkeeper.model.protocol.fault_kinds import Fault
from tests.driver.driver_house import DriverHouse

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

Counts = dict[tuple[str, str], tuple[int, int]]
"""Maps (customer, minute) to (number of events, sum of their amounts)."""


class Event(TypedDict):
    event_id: str
    customer: str
    kind: str
    amount: int
    at: str


@pytest.fixture
def house(tmp_path: Path) -> Iterator[DriverHouse]:
    house = DriverHouse(tmp_path, "event_counts")
    yield house
    house.close()


def events(first: int, count: int) -> list[Event]:
    """Return events of three customers at intervals of seven seconds."""
    return [
        Event(
            event_id=f"e{n}",
            customer="abc"[n % 3],
            kind="sale",
            amount=n,
            at=f"2026-03-01T10:{n * 7 // 60 % 60:02}:{n * 7 % 60:02}Z",
        )
        for n in range(first, first + count)
    ]


def expected(given: list[Event]) -> Counts:
    """Compute the expected contents of the table from the events alone."""
    found: Counts = {}
    for each in given:
        key = (each["customer"], each["at"][:16].replace("T", " "))
        count, amount = found.get(key, (0, 0))
        found[key] = (count + 1, amount + each["amount"])
    return found


def counted(warehouse: Path) -> Counts:
    """Return the contents of the table."""
    if not warehouse.exists():
        return {}
    with sqlite3.connect(warehouse, timeout=30) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'event_counts'").fetchone():
            return {}
        rows = connection.execute("SELECT customer, minute, events, amount FROM event_counts").fetchall()
    return {(customer, minute[:16]): (count, amount) for customer, minute, count, amount in rows}


def params(house: DriverHouse, kafka: KafkaBroker, topic: str) -> dict[str, ParamValue]:
    return {
        "servers": kafka.servers,
        "topic": topic,
        "warehouse": f"sqlite:///{house.warehouse}",
        "trigger": "100 milliseconds",
        "max_offsets_per_trigger": 40,
    }


@pytest.mark.storage
@pytest.mark.kafka
def test_a_second_driver_continues_a_topic_at_the_exact_next_record(house: DriverHouse, kafka: KafkaBroker) -> None:
    """A scheduled second driver continues at the exact next record and stops after the last one; the journal records
    where the first driver actually began. A third driver refuses a recreated topic, and a fourth reads it after a
    person's approval.
    """
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, events(0, 5))
    kafka.delete_records(topic, 5)
    held = events(5, 100)
    kafka.produce(topic, held[:60])
    kafka.produce(topic, [*held[60:], "no event"], partition=1)
    given = params(house, kafka, topic)

    first = house.launch("first", params=given)
    house.wait_state("first", DriverState.STANDBY)
    house.go("first", first, "counts")
    wait_for("the first counts", lambda: counted(house.warehouse) == expected(held))
    wait_for("its start to be recorded", lambda: house.journal.state().versions["counts"][0].start_offsets is not None)
    assert house.journal.state().versions["counts"][0].start_offsets == (f'{{"{topic}":{{"0":5,"1":0}}}}',)

    checkpoint = house.root / "checkpoints/event_counts/counts/v0001"
    scheduled = {**given, "trigger": "availableNow"}
    second = house.launch("second", params=scheduled, rehearse_on={"counts": str(checkpoint)})
    standby = house.wait_state("second", DriverState.STANDBY)
    assert standby.warm_up.startswith("ok: counts ran batch "), standby.warm_up
    house.send("first", first, CommandKind.DRAIN)
    assert house.wait_exit(first) == ExitCode.DRAINED
    more = events(105, 90)
    kafka.produce(topic, more[:30])
    kafka.produce(topic, more[30:], partition=1)
    house.go("second", second, "counts")
    assert house.wait_exit(second, 300) == ExitCode.FINISHED
    assert counted(house.warehouse) == expected([*held, *more])
    status = house.status("second")
    assert status is not None
    assert status.queries["counts"].epoch == 2
    known = house.journal.state().offset_topics("counts", "v0001")
    assert list(known) == [topic]

    kafka.delete_topic(topic)
    kafka.create_topic(topic, partitions=2)
    for partition in range(2):
        kafka.produce(topic, events(300, 200), partition=partition)
    third = house.launch("third", params=scheduled)
    house.wait_state("third", DriverState.STANDBY)
    house.go("third", third, "counts")
    assert house.wait_exit(third, 300) == ExitCode.REFUSED
    status = house.status("third")
    assert status is not None
    assert f"topic {topic} was deleted and created again" in status.error
    assert status.fault == Fault.SOURCE_LOST.value
    assert counted(house.warehouse) == expected([*held, *more])
    assert house.journal.state().offset_topics("counts", "v0001") == known
    house.operation = "approved"
    fourth = house.launch("fourth", params=scheduled)
    house.wait_state("fourth", DriverState.STANDBY)
    house.go("fourth", fourth, "counts", other_topics={"counts": {}})
    assert house.wait_exit(fourth, 300) == ExitCode.FINISHED
    approved = house.journal.state().offset_topics("counts", "v0001")
    assert approved[topic] != known[topic]

    kafka.delete_topic(topic)
    kafka.create_topic(topic, partitions=2)
    for partition in range(2):
        kafka.produce(topic, events(300, 400), partition=partition)
    fourth = house.start("fourth", 2)
    assert house.wait_exit(fourth, 300) == ExitCode.REFUSED, "the approval was for the topic before"
    assert house.journal.state().offset_topics("counts", "v0001") == approved


@pytest.mark.kafka
def test_the_event_table_job_writes_each_event_as_one_row(tmp_path: Path, kafka: KafkaBroker) -> None:
    """The ``event_table`` job writes each event as one row under its id and skips records that are not events."""
    house = DriverHouse(tmp_path, "event_table")
    try:
        topic = kafka.create_topic(partitions=2)
        given = {**params(house, kafka, topic), "trigger": "availableNow"}
        for partition in range(2):
            kafka.produce(topic, [*events(partition * 50, 50), "no event", {"customer": "a"}], partition=partition)
        driver = house.launch("first", params=given)
        house.wait_state("first", DriverState.STANDBY)
        house.go("first", driver, "events")
        assert house.wait_exit(driver, 300) == ExitCode.FINISHED
        with sqlite3.connect(house.warehouse) as connection:
            rows = connection.execute("SELECT event_id, customer, kind, amount, at FROM events").fetchall()
        assert {(row[0], row[1], row[2], row[3], f"{row[4][:19].replace(' ', 'T')}Z") for row in rows} == {
            tuple(each.values()) for each in events(0, 100)
        }
    finally:
        house.close()


def test_a_missing_kafka_jar_is_reported_with_the_command_that_fetches_it(house: DriverHouse) -> None:
    """Without Kafka's jars a driver fails with a one-line error that names the command that fetches them."""
    given = {"servers": "127.0.0.1:1", "topic": "events", "warehouse": f"sqlite:///{house.warehouse}"}
    first = house.launch("first", params=given, environ={"STREAMKEEPER_JARS": str(house.root)})
    assert house.wait_exit(first, 120) != ExitCode.FINISHED
    status = house.status("first")
    assert status is not None
    assert "event_counts.py" in status.error
    assert "fetch Kafka's jars with `make connectors`" in status.error
    assert "\n" not in status.error
