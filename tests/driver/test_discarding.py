"""Tests without Spark of what remains of a dual run: a restarted driver that is ordered to stop removes what its
predecessor wrote.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamkeeper.driver.discarding import discard_left
from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.epoch import shadow_claim, writer_of
from streamkeeper.model.protocol.driver_messages import Command, CommandKind
from streamkeeper.model.records.journal_records import EpochClaimed, InstanceAppointed, InstancePlanned, Record, Role
from streamkeeper.registry.journal import Journal
from streamkeeper.sinks.table import TableSink
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore
from tests.driver.driver_house import standby_spec

SPEC = standby_spec("new", "r0002")
ORDERS = [
    Command(number=1, kind=CommandKind.SHADOW, operation="op", versions={"totals": "v0002"}),
    Command(number=2, kind=CommandKind.STOP, operation="op"),
]


class Remains:
    """A database in which a shadow of v0002 has raised its fence beside the serving table."""

    def __init__(self, root: Path) -> None:
        self.database = root / "warehouse.db"
        store = CountingStore(LocalStore(root / "store"))
        self.journal = Journal(store, "sales", writer="test")
        self.add(InstancePlanned(operation="op", instance="new", release="r0002", role=Role.CANDIDATE))
        self.line = DriverChannel(store, "sales", "new", 2)
        sink = TableSink(f"sqlite:///{self.database}", table="totals", key=["customer"])
        self.planned = SimpleNamespace(query=SimpleNamespace(name="totals", sink=sink, df=None, output_mode="update"))
        writer = writer_of(
            self.planned.query, shadow_claim("sales", "new", 1, self.planned.query, "v0002"), self.line.look()
        )
        writer.raise_fence()
        writer.close()
        with sqlite3.connect(self.database) as connection:
            connection.execute("CREATE TABLE totals (customer TEXT PRIMARY KEY)")
            connection.execute("CREATE TABLE totals__v0002 (customer TEXT PRIMARY KEY)")

    def add(self, record: Record) -> None:
        self.journal.append(lambda _: record)

    def tables(self) -> set[str]:
        with sqlite3.connect(self.database) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'totals%'")
            return {name for (name,) in found}

    def discard(self) -> None:
        discard_left(self.line, SPEC, 2, {"totals": self.planned}, ORDERS)  # type: ignore[dict-item]


@pytest.fixture
def remains(tmp_path: Path) -> Remains:
    return Remains(tmp_path)


def test_what_was_written_in_shadow_is_removed(remains: Remains) -> None:
    """Discarding removes only the shadow's table, and can be repeated."""
    remains.discard()
    remains.discard()
    assert remains.tables() == {"totals"}


def test_discarding_keeps_the_table_of_a_version_claimed_to_serve(remains: Remains) -> None:
    """Discarding keeps the table of a version that was claimed to serve, because after the start of the cutover it may
    be the serving one.
    """
    remains.add(InstanceAppointed(operation="op", instance="new", versions={"totals": "v0002"}))
    remains.add(EpochClaimed(query="totals", output="o", epoch=2, instance="new", generation=1, version="v0002"))
    remains.discard()
    assert remains.tables() == {"totals", "totals__v0002"}
