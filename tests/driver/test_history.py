"""Tests of the history beside the status: at most one point per minute, continued by the next generation, and never
blocking the driver.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.fault_store import FaultStore, unavailable
from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.measuring import QueryProgress
from streamkeeper.driver.progress import StatusReporter
from streamkeeper.driver.timings import Timings
from streamkeeper.errors import StoreUnavailable
from streamkeeper.model.protocol.driver_messages import QueryStatus
from streamkeeper.model.protocol.signals import History
from streamkeeper.registry.driver_control import Control
from streamkeeper.stores.contract import Store
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore
from tests.driver.driver_house import standby_spec

NOW = 1_795_000_000.0


class Bench:
    """A status reporter over a real store with a settable clock."""

    def __init__(self, store: Store, history: History | None = None) -> None:
        self.now = NOW
        self.store = CountingStore(store)
        self.control = Control(store, "sales", "first")
        line = DriverChannel(self.store, "sales", "first", 1)
        spec = standby_spec("first", "r0001")
        self.board = StatusReporter(spec, 1, Timings(), line, history=history, clock=lambda: self.now)

    def serve(self) -> None:
        self.board.put(QueryStatus(query="totals", version="v0001", epoch=1))

    def tell(self, at_s: float, *batches: int) -> int:
        """Commit these batches, report the status, and return the number of requests."""
        self.now = NOW + at_s
        for each in batches:
            self.board.note_trigger("totals", QueryProgress(name="totals", batchId=each))
        before = self.store.requests
        self.board.tell()
        return self.store.requests - before

    def points(self) -> list[tuple[float, int]]:
        history = self.control.read_history()
        return [(each.at - NOW, each.signals.batch) for each in history.queries["totals"]] if history else []


@pytest.mark.parametrize("secrets", [{"secret://env/X": "hunter22"}, {}], ids=["masked", "without-it"])
def test_an_error_in_a_status_shows_no_secret(tmp_path: Path, secrets: dict[str, str]) -> None:
    """Secrets are masked in the errors of queries and of the driver and in what it waits for, but not in names.
    Negative control: without known secrets nothing is masked.
    """
    store = CountingStore(LocalStore(tmp_path))
    spec = standby_spec("hunter22", "r0001")
    board = StatusReporter(spec, 1, Timings(), DriverChannel(store, "sales", "first", 1), secrets=secrets)
    board.put(QueryStatus(query="totals", version="v0001", epoch=1))
    board.note_failure("totals", "login with hunter22 failed")
    board.error = board.waiting = board.warm_up = "login with hunter22 failed"
    board.tell()
    status = Control(store, "sales", "first").read_status()
    assert status is not None
    assert status.instance == "hunter22"
    told = {status.error, status.waiting, status.warm_up, status.queries["totals"].error}
    assert told == {"login with *** failed" if secrets else "login with hunter22 failed"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(LocalStore(tmp_path))


def test_a_history_point_costs_one_more_request_per_minute(bench: Bench) -> None:
    """Each report costs one request, and one more for a history point every minute, or every second minute without a
    commit.
    """
    assert bench.tell(0) == 1
    bench.serve()
    requests = [bench.tell(second, second) for second in range(0, 130, 10)]
    assert requests == [2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2]
    assert bench.points() == [(0, 0), (60, 60), (120, 120)]
    assert [bench.tell(second) for second in (132, 180, 230, 240, 300)] == [1, 1, 1, 2, 1]
    assert bench.tell(301, 301) == 2


def test_the_next_generation_continues_the_history_with_equal_spacing(bench: Bench, tmp_path: Path) -> None:
    """The next generation continues the history with the same spacing, so that a driver that keeps restarting writes no
    more points than a running one.
    """
    bench.serve()
    bench.tell(0, 0)
    again = Bench(LocalStore(tmp_path), bench.control.read_history())
    again.serve()
    assert [again.tell(second, 1) for second in (5, 61)] == [1, 2]
    assert again.points() == [(0, 0), (61, 1)]


def test_a_clock_set_back_stops_no_history(bench: Bench) -> None:
    """After the clock was set back, the next point is written at once and the following ones a minute apart."""
    bench.serve()
    assert [bench.tell(second, 1) for second in (0, -3600, -3590, -3500)] == [2, 2, 1, 2]


def test_an_unwritable_history_is_ignored_and_an_unwritable_status_raises(tmp_path: Path) -> None:
    """A history that cannot be written does not prevent the status; a status that cannot be written raises
    ``StoreUnavailable``.
    """
    bench = Bench(FaultStore(LocalStore(tmp_path), unavailable("replace", key="history.json")))
    bench.serve()
    bench.tell(0, 0)
    status = bench.control.read_status()
    assert status is not None
    assert status.queries["totals"].signals.batch == 0
    assert bench.points() == []
    silent = Bench(FaultStore(LocalStore(tmp_path), unavailable("replace")))
    silent.serve()
    with pytest.raises(StoreUnavailable):
        silent.tell(0, 0)


@pytest.mark.parametrize("stored", [b"{ cut", b'{"format": 2, "queries": {}}', b'{"queries": {"totals": 7}}'])
def test_history_that_cannot_be_read_is_none(bench: Bench, tmp_path: Path, stored: bytes) -> None:
    """An unreadable history counts as none, and the driver overwrites it."""
    path = tmp_path / "control/sales/first/history.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(stored)
    assert bench.control.read_history() is None
    bench.serve()
    bench.tell(0, 4)
    assert bench.points() == [(0, 4)]


def test_a_driver_reads_the_history_of_its_instance(bench: Bench) -> None:
    """A driver reads the history that its earlier generation wrote, and gets ``None`` before the first point."""
    line = DriverChannel(bench.store, "sales", "first", 2)
    assert line.read_history() is None
    bench.serve()
    bench.tell(0, 7)
    found = line.read_history()
    assert found is not None
    assert found == bench.control.read_history()
    assert [each.signals.batch for each in found.queries["totals"]] == [7]
