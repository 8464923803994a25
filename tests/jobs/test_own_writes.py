"""Tests of the bundled jobs whose own functions write the output: a driver is killed between two of their writes, and
every record still counts once.
"""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Callable, Iterator
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest
import sqlalchemy as sa
from pyspark.sql import Row

from harness.kafka_broker import KafkaBroker
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.protocol.driver_messages import DriverState, ExitCode
from tests.driver.driver_house import ROOT, DriverHouse

KILL = """import os, pathlib
{indent}if not pathlib.Path({flag!r}).exists():
{indent}    pathlib.Path({flag!r}).touch()
{indent}    os.kill(os.getpid(), 9)"""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database; the jobs' tables in it are dropped afterwards."""
    url = f"sqlite:///{tmp_path / 'own.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_server").replace("postgresql://", "postgresql+psycopg://")
    yield url
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for table in ("events", "balances", "balance_offsets", "rejected_records"):
            connection.execute(sa.text(f"DROP TABLE IF EXISTS {table}"))
    engine.dispose()


@pytest.fixture
def house_of(tmp_path: Path) -> Iterator[Callable[[str], DriverHouse]]:
    """A function that returns a house of drivers of one bundled job, which kills itself once at the comment about a
    killed driver.
    """
    houses: list[DriverHouse] = []

    def of(name: str) -> DriverHouse:
        source = (ROOT / "jobs" / f"{name}.py").read_text().splitlines()
        (place,) = [number for number, line in enumerate(source) if "# If the driver is killed here" in line]
        indent = source[place][: source[place].index("#")]
        source[place] = indent + KILL.format(indent=indent, flag=str(tmp_path / "killed"))
        jobs = tmp_path / "jobs"
        jobs.mkdir()
        (jobs / f"{name}.py").write_text("\n".join(source) + "\n")
        houses.append(DriverHouse(tmp_path, name, jobs))
        return houses[-1]

    yield of
    for house in houses:
        house.close()


def load(name: str) -> ModuleType:
    """Return the module of a bundled job."""
    spec = util.spec_from_file_location(name, ROOT / "jobs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(statement))]
    finally:
        engine.dispose()


def run_with_a_kill(house: DriverHouse, params: dict[str, ParamValue], name: str, between: Callable[[], None]) -> None:
    """Run a driver until it kills itself, call ``between``, and run a second driver until it has read all input."""
    first = house.launch("first", params={**params, "trigger": "availableNow"})
    house.wait_state("first", DriverState.STANDBY)
    tree = psutil.Process(first.pid).children(recursive=True)
    house.go("first", first, name)
    assert house.wait_exit(first, 120) == -signal.SIGKILL
    psutil.wait_procs(tree, timeout=60)
    between()
    second = house.start("first", 2)
    assert house.wait_exit(second, 300) == ExitCode.FINISHED


def record(offset: int, customer: str | None, amount: int | None, partition: int = 0) -> dict[str, Any]:
    return {"topic": "t", "partition": partition, "offset": offset, "customer": customer, "amount": amount}


def test_a_record_is_added_to_its_balance_once(database: str) -> None:
    """A repeated batch, and a batch that overlaps an earlier one, add only the records that the balances do not include
    yet; records without customer or amount change no balance.
    """
    add = load("event_balances").add
    batch = [record(0, "a", 5), record(1, "b", 7), record(0, "a", 1, 1), record(2, None, 3), record(3, "a", None)]
    for given in (batch, batch, [*batch, record(4, "a", 10), record(1, "c", 2, 1)], []):
        add(database, given)
    assert query(database, "SELECT * FROM balances ORDER BY customer") == [("a", 16), ("b", 7), ("c", 2)]
    assert query(database, 'SELECT topic, part, "offset" FROM balance_offsets ORDER BY part') == [
        ("t", 0, 4),
        ("t", 1, 1),
    ]


def test_without_the_offsets_a_repeated_batch_is_added_twice(database: str) -> None:
    """Negative control: if the transaction does not store the offsets, a repeated batch doubles the balance."""
    module = load("event_balances")
    module.INCLUDE = 'UPDATE balance_offsets SET "offset" = :offset WHERE topic = :topic AND part = :part'
    for _ in range(2):
        module.add(database, [record(0, "a", 5)])
    assert query(database, "SELECT * FROM balances") == [("a", 10)]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_driver_killed_between_two_databases_leaves_both_complete(
    house_of: Callable[[str], DriverHouse],
) -> None:
    """After a kill between its two writes only the first database has the batch; the next driver completes both, each
    with every event once.
    """
    house = house_of("event_fan_out")
    second = house.root / "second.db"
    rows = [f"e{number},{'abc'[number % 3]},sale,{number}\n" for number in range(30)]
    (house.input / "events.csv").write_text("".join(rows))
    wanted = [tuple(line.strip().split(",")[:3]) for line in sorted(rows)]

    def events(path: Path) -> list[tuple[Any, ...]]:
        with sqlite3.connect(path) as connection:
            return connection.execute("SELECT event_id, customer, kind FROM events ORDER BY event_id").fetchall()

    def look() -> None:
        assert sorted(events(house.warehouse)) == sorted(wanted)
        assert not second.exists()

    params: dict[str, ParamValue] = {
        "input": str(house.input),
        "warehouse": f"sqlite:///{house.warehouse}",
        "second": f"sqlite:///{second}",
    }
    run_with_a_kill(house, params, "events", look)
    assert sorted(events(house.warehouse)) == sorted(events(second)) == sorted(wanted)


def test_a_record_is_stored_as_an_event_or_as_rejected(database: str) -> None:
    """A repeated batch stores each record once: events by their id, rejected records by their place in the topic."""
    event = Row(event_id="e0", customer="a", kind="sale", amount=3, at=None)
    good = {"topic": "t", "partition": 0, "offset": 0, "event": event, "reason": None, "record": "{}"}
    bad = {**good, "offset": 1, "event": None, "reason": "it is not JSON of an event", "record": "x"}
    for _ in range(2):
        load("event_intake").store(database, [good, bad])
    assert query(database, "SELECT * FROM events") == [("e0", "a", "sale", 3, None)]
    assert query(database, "SELECT * FROM rejected_records") == [("t", 0, 1, "it is not JSON of an event", "x")]


def of_kafka(house: DriverHouse, kafka: KafkaBroker, topic: str) -> dict[str, ParamValue]:
    return {"servers": kafka.servers, "topic": topic, "warehouse": f"sqlite:///{house.warehouse}"}


@pytest.mark.storage
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_a_driver_killed_inside_a_transaction_adds_each_event_once(
    house_of: Callable[[str], DriverHouse], kafka: KafkaBroker
) -> None:
    """A driver is killed between the balances and the offsets of one transaction: no balance changes, and the next
    driver adds each event once.
    """
    house, topic = house_of("event_balances"), kafka.create_topic(partitions=2)
    for partition in range(2):
        kafka.produce(
            topic, [{"customer": "abc"[n % 3], "amount": n} for n in range(30)] + ["no event"], partition=partition
        )

    def look() -> None:
        assert query(f"sqlite:///{house.warehouse}", "SELECT * FROM balances") == []

    run_with_a_kill(house, of_kafka(house, kafka, topic), "balances", look)
    wanted = [(name, 2 * sum(n for n in range(30) if "abc"[n % 3] == name)) for name in "abc"]
    assert query(f"sqlite:///{house.warehouse}", "SELECT * FROM balances ORDER BY customer") == wanted


@pytest.mark.storage
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_a_driver_killed_between_events_and_rejected_records_keeps_each_record_once(
    house_of: Callable[[str], DriverHouse], kafka: KafkaBroker
) -> None:
    """A driver is killed between the events and the rejected records of one transaction: neither is visible, and the
    next driver writes each record to one of the two tables, a rejected one with its reason and its place.
    """
    house, topic = house_of("event_intake"), kafka.create_topic(partitions=1)
    good = {"event_id": "e0", "customer": "a", "kind": "sale", "amount": 3, "at": "2026-03-01T10:00:00Z"}
    bad = ["no event", {**good, "event_id": None}, {**good, "event_id": "e1", "amount": None}, {**good, "amount": "x"}]
    kafka.produce(topic, [good, *bad, {**good, "event_id": "e2", "kind": "\0"}, b"\0x"], partition=0)
    url = f"sqlite:///{house.warehouse}"

    def look() -> None:
        assert query(url, "SELECT * FROM events") == []

    run_with_a_kill(house, of_kafka(house, kafka, topic), "intake", look)
    assert query(url, "SELECT * FROM events") == [("e0", "a", "sale", 3, "2026-03-01T10:00:00+00:00")]
    rejected = query(url, "SELECT position, reason, record FROM rejected_records ORDER BY position")
    assert [(position, reason) for position, reason, _ in rejected] == [
        (1, "it is not JSON of an event"),
        (2, "it has no event_id"),
        (3, "it has no amount"),
        (4, "it is not JSON of an event"),
        (5, "it contains the character U+0000"),
        (6, "it is not JSON of an event"),
    ]
    assert [text if text == "no event" else json.loads(text) for *_, text in rejected[:4]] == bad
    assert rejected[5][2] == "0078"
