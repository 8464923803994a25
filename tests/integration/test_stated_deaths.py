"""Tests of a frozen machine whose driver a person states to be dead and which wakes up beside its successor, on two
machines.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from harness.machines import LOOPBACK, Machine, machine, missing_for_machines
from streamkeeper.model.records.stated_deaths import unproven_owner
from tests.integration.test_recovery import JOB, QUERY, House

pytestmark = [pytest.mark.spark, pytest.mark.storage, pytest.mark.timeout(600)]

REASON = ("--reason", "its host is gone for good")
A, B = "machine-a", "machine-b"


class Watched(House):
    """A test installation that is observed from here while its commands run on one of two machines; ``disk`` is the
    path at which each machine has its own directory.
    """

    def __init__(self, root: Path, machines: dict[str, Machine], disk: Path) -> None:
        super().__init__(root)
        self.machines, self.disk = machines, disk

    def on(self, name: str, *words: str) -> tuple[int, str]:
        """Run the command line on a machine, which has a home of its own, and return its exit code and output."""
        settings = self.installation.settings
        own = {"STORE": settings.store, "CHECKPOINTS": settings.checkpoints, "JOBS": settings.jobs}
        own |= {"HOME": str(self.disk / "home")}
        environ = {**os.environ, **{f"STREAMKEEPER_{key}": value for key, value in own.items()}}
        return self.machines[name].run([sys.executable, "-m", "streamkeeper.cli.main", *words], environ)

    def must_on(self, name: str, *words: str) -> None:
        """Run the command line on a machine and require that it succeeds."""
        code, said = self.on(name, *words)
        assert code == 0, said

    def send(self, name: str, number: signal.Signals) -> list[psutil.Process]:
        """Send a signal to all drivers' processes on a machine, and return these processes."""
        found = []
        for each in self.machines[name].processes:
            with suppress(psutil.NoSuchProcess):
                if "STREAMKEEPER_INSTANCE" in each.environ():
                    each.send_signal(number)
                    found.append(each)
        return found


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Watched]:
    if missing := missing_for_machines():
        pytest.skip(missing)
    disk = Path(tempfile.mkdtemp(prefix="streamkeeper-disk-"))
    apart = tmp_path / "machines"
    with machine(A, LOOPBACK, 2, apart, disk) as one, machine(B, LOOPBACK, 3, apart, disk) as other:
        yield Watched(tmp_path, {A: one, B: other}, disk)
    disk.rmdir()


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_driver_stated_dead_that_wakes_up_writes_no_visible_rows(house: Watched) -> None:
    """After a frozen driver is stated to be dead from a different machine, no driver may use its checkpoint directory,
    only a restored copy. When it wakes up to new input it stops, and the table and the new directory contain only its
    successor's writes.
    """
    house.add(("a", 1), ("b", 2))
    params = {"input": str(house.input), "warehouse": f"sqlite:///{house.warehouse}", "trigger": "200 milliseconds"}
    conf = ("--conf", "spark.master=local[1]", "--conf", "spark.sql.shuffle.partitions=1")
    deploy = ("deploy", JOB, "--params", json.dumps(params), *conf, "--probation-batches", "0")
    house.must_on(A, *deploy, "--reason", "the first one")
    house.settle()
    zombie = house.instance
    old = Path(house.directory)
    frozen = house.send(A, signal.SIGSTOP)
    assert frozen

    code, said = house.on(B, "start", JOB, *REASON)
    assert (code != 0, f"it runs on {A}" in said) == (True, True), said
    house.must_on(B, "state-dead", JOB, zombie, "--accept", *REASON)
    for words in (("start", JOB), deploy):
        code, said = house.on(B, *words, *REASON)
        assert (code != 0, "may still write to checkpoint" in said) == (True, True), said
    code, said = house.on(B, "recover", JOB)
    assert ("owner-unproven" in said, "snapshot take" in said) == (True, True), said
    house.must_on(B, "snapshot", "take", JOB)
    house.must_on(B, "recover", JOB, "--action", "restore", *REASON)
    house.add(("a", 3), ("c", 4))
    house.settle()
    new = Path(house.directory)
    assert (new.name, old.name) == ("v0002", "v0001")

    house.add(("c", 5), ("d", 6))
    house.settle()
    before = files_of(new / "commits")
    house.send(A, signal.SIGCONT)
    assert psutil.wait_procs(frozen, timeout=120)[1] == []
    house.add(("e", 7))
    house.settle()
    assert house.totals() == house.oracle
    assert before.items() <= files_of(new / "commits").items()
    state = house.installation.journal(JOB, "test").state()
    assert (state.appointed, state.current_version(QUERY).version) != (zombie, "v0001")  # type: ignore[union-attr]
    assert unproven_owner(state, QUERY) == ""
