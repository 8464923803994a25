"""Tests that the simulated store keeps the contract of the real stores while no fault is switched on, and how its
faults behave.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.simulation.scheduler import Process, Scheduler
from harness.simulation.store import Disk, SimulatedStore
from streamkeeper.errors import StoreUnavailable
from tests.contracts.store_contract import StoreContract


@pytest.fixture
def store() -> Iterator[SimulatedStore]:
    """A simulated store that is used outside of any simulated process."""
    scheduler = Scheduler(1)
    yield SimulatedStore(Disk(), scheduler, None)
    scheduler.close()


class TestSimulatedStore(StoreContract):
    """The simulated store is neither weaker nor stronger than the real ones."""


def test_some_creates_with_a_lost_answer_have_written_their_value() -> None:
    """Some of the creates whose answer was lost have still written their value, as on a real network."""
    scheduler, disk = Scheduler(1), Disk()
    process = Process("writer", "m1")
    store = SimulatedStore(disk, scheduler, process, lost=lambda: 0.5)
    failed: list[str] = []

    def write() -> None:
        for number in range(200):
            try:
                store.create(f"a/{number}", b"x")
            except StoreUnavailable:
                failed.append(f"a/{number}")

    scheduler.start(process, "writer", write)
    scheduler.run(1000.0)
    scheduler.close()
    written = [key for key in failed if disk.get(key) is not None]
    assert 20 < len(written) < len(failed) - 20


def test_a_disconnected_process_gets_store_unavailable_until_the_fault_is_over() -> None:
    """A process that is cut off from the store gets ``StoreUnavailable`` until the fault is over, and then reads the
    store.
    """
    scheduler, disk = Scheduler(1), Disk()
    process = Process("reader", "m1", blind_until=5.0)
    store = SimulatedStore(disk, scheduler, process)
    told: list[str] = []

    def read() -> None:
        for _ in range(2):
            try:
                told.append(str(list(store.list("a/"))))
            except StoreUnavailable as error:
                told.append(str(error))
            scheduler.sleep(6.0)

    scheduler.start(process, "reader", read)
    scheduler.run(1000.0)
    scheduler.close()
    assert told == ["simulated: reader cannot reach the store (list a/)", "[]"]
