"""Tests of a store that was replaced by an older copy, with a function as the sink that keeps no epoch: the claims
beside the checkpoint protect the query.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import wait_for
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, ExitCode
from streamkeeper.registry.journal import Journal
from tests.driver.test_lost_checkpoint import QUERY, Calls

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Calls]:
    """A job that was handed over to v0002 and drained, and whose store was then replaced by a copy from before the
    handoff.
    """
    house = Calls(tmp_path)
    try:
        first = house.serve("first", 1)
        house.send("first", first, CommandKind.DRAIN)
        assert house.wait_exit(first) == ExitCode.DRAINED
        shutil.copytree(house.store_directory, tmp_path / "older")
        house.create(QUERY, "v0002", parent="v0001")
        second = house.launch("second")
        house.wait_state("second", DriverState.STANDBY)
        house.switch("second", second, {QUERY: "v0002"})
        house.add([("c", 3), ("d", 4)])
        wait_for("the new version's rows", lambda: len(house.called) == 4)
        house.send("second", second, CommandKind.DRAIN)
        assert house.wait_exit(second) == ExitCode.DRAINED
        shutil.rmtree(house.store_directory)
        (tmp_path / "older").rename(house.store_directory)
        house.journal = Journal(house.store, house.job, writer="test")
        yield house
    finally:
        house.close()


def test_a_driver_on_an_older_store_is_refused_by_newer_claims(house: Calls) -> None:
    """A driver on an older copy of the store is refused by the newer claim beside the checkpoint, claims no epoch, and
    calls the function with no row twice. Negative control: a driver that reads only the journal calls it with the new
    version's rows twice.
    """
    third = house.launch("third")
    house.wait_state("third", DriverState.STANDBY)
    house.go("third", third, QUERY)
    assert house.wait_exit(third, 90) == ExitCode.REFUSED
    told = house.wait_state("third", DriverState.FAILED).error
    assert "was claimed for v0002 under epoch 2, and the journal ends at epoch 1" in told
    assert "streamkeeper registry rebuild" in told
    assert house.journal.state().epochs[QUERY].instance == "first"
    assert sorted(house.called) == sorted(set(house.called))

    house.program = [str(Path(__file__).with_name("claimless_driver.py"))]
    house.start("third", 2)
    wait_for("the rows that come twice", lambda: len(house.called) == 6)
    assert len(set(house.called)) == 4
