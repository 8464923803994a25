"""Tests of real drivers in a dual run: one serves while another fills a new version as a shadow, until a cutover or an
abort.
"""

from __future__ import annotations

import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.waiting import wait_for
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, DriverStatus, ExitCode
from tests.driver.driver_house import DriverHouse

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

LOOK_S = 0.02
FED = 30


class Reader:
    """A thread that reads the serving table continuously; ``went_back`` lists every count that has decreased."""

    def __init__(self, house: DriverHouse) -> None:
        self._house = house
        self._over = threading.Event()
        self._seen: dict[str, int] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.looks = 0
        self.went_back: list[str] = []
        self._thread.start()

    def _read(self) -> None:
        with sqlite3.connect(self._house.warehouse, timeout=30) as connection:
            while not self._over.wait(LOOK_S):
                now = dict(connection.execute("SELECT customer, sales FROM sales_totals").fetchall())
                self.looks += 1
                for name, before in self._seen.items():
                    if now.get(name, 0) < before:
                        self.went_back.append(f"look {self.looks}: {name} from {before} to {now.get(name, 0)}")
                self._seen = now

    def close(self) -> None:
        self._over.set()
        self._thread.join(30)


class Feeder:
    """A thread that adds new sales continuously, up to a limit that a slow machine can process."""

    def __init__(self, house: DriverHouse) -> None:
        self._house = house
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        until = self._house.files + FED
        while not self._over.wait(0.5) and self._house.files < until:
            self._house.add([("a", self._house.files), ("b", 1), (f"c{self._house.files % 5}", 2)])

    def close(self) -> None:
        self._over.set()
        self._thread.join(30)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[DriverHouse]:
    """A driver house whose instance ``first`` serves v0001."""
    house = DriverHouse(tmp_path)
    for number in range(15):
        house.add([("a", number), ("b", 1)])
    first = house.launch("first", params=params(house))
    house.wait_state("first", DriverState.STANDBY)
    house.go("first", first, "totals")
    wait_for("the first totals", lambda: house.totals() == house.oracle())
    yield house
    house.close()


def params(house: DriverHouse) -> dict[str, object]:
    """Return the params with a limit of files per batch, so that a shadow has to catch up."""
    return {**house.params(), "files_per_trigger": 10}


def begin(
    house: DriverHouse, instance: str, version: str, serving_version: str = "v0001", **environ: str
) -> subprocess.Popen[bytes]:
    """Start an instance beside the serving one and make it shadow."""
    serving = {"totals": str(house.checkpoint("totals", serving_version))}
    process = house.launch(instance, params=params(house), rehearse_on=serving, environ=environ)
    house.wait_state(instance, DriverState.STANDBY)
    house.shadow(instance, process, "totals", version)
    status = house.wait_state(instance, DriverState.SHADOW)
    assert status.queries["totals"].version == version
    return process


def told(house: DriverHouse, instance: str = "second") -> DriverStatus:
    """Return the status of an instance; fails at once if it reports an error."""
    status = house.status(instance)
    assert status is not None
    assert status.error == ""
    return status


def retire(house: DriverHouse, instance: str, process: subprocess.Popen[bytes], version: str) -> None:
    """Drain the serving instance, and wait until the shadow holds everything that it has written."""
    house.send(instance, process, CommandKind.DRAIN)
    assert house.wait_exit(process) == ExitCode.DRAINED
    old = house.totals()

    def holds_all() -> bool:
        new = house.totals(f"sales_totals__{version}")
        return all(name in new and new[name][0] >= each[0] for name, each in old.items())

    wait_for("the shadow to hold everything", holds_all)


def test_an_aborted_shadow_leaves_nothing_and_a_cutover_is_invisible_to_readers(house: DriverHouse) -> None:
    """A comparison reports where a shadow differs, an aborted shadow leaves nothing behind, and no count that readers
    see decreases during a cutover.

    A driver that is killed right before or right after its outputs swap is replaced by its next generation, which
    serves the new version with exact totals.
    """
    _abort_what_differs(house)
    reader = Reader(house)
    serving = _compare_and_cut_over(house)
    for before, instance, versions, point in (
        ("second", "third", ("v0003", "v0004"), "driver.fence.before:2"),
        ("third", "fourth", ("v0004", "v0005"), "driver.cutover.fence.after"),
    ):
        serving = _cut_over_with_a_death(house, before, serving, instance, versions, point)
    reader.close()
    assert reader.looks > 100
    assert reader.went_back == []
    house.send("fourth", serving, CommandKind.DRAIN)
    assert house.wait_exit(serving) == ExitCode.DRAINED


def _abort_what_differs(house: DriverHouse) -> None:
    aborted = begin(house, "aborted", "v0002")
    wait_for("the shadow", lambda: house.totals("sales_totals__v0002") == house.oracle())
    with sqlite3.connect(house.warehouse, timeout=30) as connection:
        connection.execute("UPDATE sales_totals__v0002 SET total = total - 1 WHERE customer = 'b'")
        connection.execute("UPDATE sales_totals__v0002 SET squares = squares - 1")
    house.send("aborted", aborted, CommandKind.COMPARE, may_differ={"totals": ("squares",)})
    wait_for("what differs", lambda: "totals" in told(house, "aborted").compared, 180)
    differing = told(house, "aborted").compared["totals"]
    assert (differing.comparable, differing.differing, differing.allowed) == (True, 1, ("squares",))
    assert differing.columns == {"total": 1, "squares": 2}
    assert differing.sample == (("customer='b'", "total", "15", "14"),)
    house.send("aborted", aborted, CommandKind.STOP)
    assert house.wait_exit(aborted) == ExitCode.STOPPED
    assert [name for name in house.tables() if "v0002" in name] == []
    assert house.totals() == house.oracle()


def _compare_and_cut_over(house: DriverHouse) -> subprocess.Popen[bytes]:
    """Compare and cut over; return the second driver, which then serves v0003."""
    before = house.status("first")
    second = begin(house, "second", "v0003")
    serving = house.status("first")
    assert before is not None
    assert serving is not None
    assert serving.state is DriverState.SERVING
    assert serving.queries["totals"].epoch == before.queries["totals"].epoch == 1
    house.add([("a", 100), ("d", 4)])
    house.send("second", second, CommandKind.COMPARE)
    wait_for("the comparison", lambda: "totals" in told(house).compared, 180)
    compared = told(house).compared["totals"]
    assert compared.comparable, compared.why
    assert compared.old_rows == compared.new_rows > 0
    assert (compared.only_old, compared.only_new, compared.differing) == (0, 0, 0)

    feeder = Feeder(house)
    retire(house, "first", house.processes[0], "v0003")
    house.switch("second", second, {"totals": "v0003"})
    served = house.wait_state("second", DriverState.SERVING)
    assert (served.queries["totals"].version, served.queries["totals"].epoch) == ("v0003", 2)
    wait_for("its first triggers", lambda: told(house).queries["totals"].triggers >= 3)
    feeder.close()
    wait_for("all totals", lambda: house.totals() == house.oracle())
    return second


def _cut_over_with_a_death(
    house: DriverHouse,
    before: str,
    serving: subprocess.Popen[bytes],
    instance: str,
    versions: tuple[str, str],
    point: str,
) -> subprocess.Popen[bytes]:
    """Cut over from one version to the next with an instance that is killed at this crash point, and return its next
    generation.
    """
    old, new = versions
    killed = begin(house, instance, new, old, STREAMKEEPER_CRASH=point)
    feeder = Feeder(house)
    tree = psutil.Process(killed.pid).children(recursive=True)
    retire(house, before, serving, new)
    house.switch(instance, killed, {"totals": new})
    assert killed.wait(timeout=120) == -9
    assert psutil.wait_procs(tree, timeout=60)[1] == []
    feeder.close()
    again = house.start(instance, 2)
    wait_for(
        "the next generation",
        lambda: (status := told(house, instance)).generation == 2 and status.state is DriverState.SERVING,
        180,
    )
    wait_for("all totals", lambda: house.totals() == house.oracle())
    epoch = house.journal.state().epochs["totals"]
    assert (epoch.version, epoch.generation) == (new, 2)
    return again
