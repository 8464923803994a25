"""A real home of the previous version under this one's commands and drivers, and back under the previous one's.

``previous/code.tar.gz`` is that version's code, so that neither tags nor history have to be there;
``scripts/keep-version`` puts the next one in its place.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from harness.bed import Bed
from harness.ledger import compare_totals, expected_totals
from harness.outputs import read_totals
from harness.places import ROOT
from harness.waiting import wait_for
from streamkeeper.cli.main import app
from streamkeeper.model.protocol.control import DriverExit
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_keys import entry_key
from streamkeeper.registry.control import Control

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
PREVIOUS = Path(__file__).parent / "previous"
PLUGINS = ROOT / "plugins"
JOB = "sales_totals"
HASTE = ("--probation-batches", "0", "--conf", "spark.master=local[1]", "--conf", "spark.sql.shuffle.partitions=1")


class House:
    """One installation with one job, on which two versions work; ``previous``: the plugins folder of the older one."""

    def __init__(self, root: Path) -> None:
        kept = json.loads((PREVIOUS / "kept.json").read_text())
        code = PREVIOUS / "code.tar.gz"
        assert hashlib.sha256(code.read_bytes()).hexdigest() == kept["sha256"], "scripts/keep-version writes both"
        with tarfile.open(code) as archive:
            archive.extractall(root / "previous", filter="data")
        self.previous = root / "previous" / "plugins"
        self.bed = Bed(root, [root / "previous" / "jobs" / f"{JOB}.py"])
        self.warehouse = root / "warehouse.db"

    def now(self, *words: str) -> str:
        """What this version's command prints; it must end well."""
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return done.output

    def before(self, *words: str) -> str:
        """What the previous version's command prints; it must end well."""
        done = self.bed.command(*words, extra={"PYTHONPATH": str(self.previous)})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def before_refuses(self, *words: str) -> str:
        """The one line with which the previous version's command does nothing."""
        done = self.bed.command(*words, extra={"PYTHONPATH": str(self.previous)})
        assert done.returncode != 0, done.stdout
        assert [line.startswith("error: ") for line in done.stderr.splitlines()] == [True], done.stderr
        return done.stderr

    def params(self, files: int) -> tuple[str, str]:
        given = {
            "input": str(self.bed.input / "sales"),
            "warehouse": f"sqlite:///{self.warehouse}",
            "trigger": "200 milliseconds",
            "files_per_trigger": files,
        }
        return "--params", json.dumps(given)

    @property
    def state(self) -> JobState:
        return self.bed.installation.journal(JOB, "test").state()

    def serves(self, release: str, code: Path) -> None:
        """That this release serves, by a driver of this code."""
        state = self.state
        assert state.serving_release == release
        supervisors = [each for each in self.bed.processes() if "streamkeeper.runners.supervisor" in _words(each)]
        runs = {(each.environ()["STREAMKEEPER_INSTANCE"], each.environ()["PYTHONPATH"]) for each in supervisors}
        assert runs == {(f"{JOB}/{state.appointed}", str(code))}

    def goes_on(self) -> None:
        """Wait until all sales so far have come out, each once, by the driver that was there before."""
        appointed, sold = self.state.appointed, expected_totals(self.bed.input / "sales")
        counted = sum(each.count for each in sold.values())
        wait_for("the sales so far", lambda: sum(each.count for each in self.out().values()) >= counted, timeout_s=60)
        assert self.state.appointed == appointed
        assert self.exit(appointed) is None

    def out(self) -> dict[str, Any]:
        return read_totals(self.warehouse)

    def exit(self, instance: str) -> DriverExit | None:
        return Control(self.bed.installation.store, JOB, instance).read_exit()

    def balance(self) -> None:
        """That all that was sold is in the table exactly once."""
        self.bed.stop_producer()
        sold = expected_totals(self.bed.input / "sales")
        wait_for("the last sales", lambda: self.out() == sold, timeout_s=60)
        assert compare_totals("sales", sold, self.out()).clean


def _words(process: psutil.Process) -> list[str]:
    """None of one that has ended since it was found: a JVM forks for a moment."""
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """Sales keep coming, and a job of the previous version serves them."""
    house = House(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    for name in ("STREAMKEEPER_HOME", "STREAMKEEPER_JOBS"):
        monkeypatch.setenv(name, house.bed.environment[name])
    try:
        house.bed.start_producer()
        house.before("deploy", JOB, *house.params(100), *HASTE, "--reason", "first")
        house.before("snapshot", "take", f"{JOB}/totals")
        yield house
    finally:
        house.bed.close()


def write_of_tomorrow(house: House) -> str:
    """Record what neither of the two versions knows and no driver may pass over; the entry's key."""
    number = house.state.number + 1
    entry = {"number": number, "at": "", "by": "tomorrow", "record": {"type": "slept"}, "drivers_may_pass": False}
    house.bed.installation.store.create(entry_key(JOB, number), json.dumps(entry).encode())
    return entry_key(JOB, number)


def test_a_home_of_the_previous_version_lives_on_and_goes_back(house: House) -> None:
    """Its driver serves on under this version's commands, is handed over, and taken back: nothing lost or doubled.

    Negative control: a record that the previous version's driver must understand, and does not, ends it; its release
    is then started by this version, which describes it as it was described.
    """
    house.serves("r0001", house.previous)
    assert "r0001" in house.now("jobs", "--now")
    assert "serving" in house.now("status", JOB)
    assert "first" in house.now("history", JOB)
    assert "r0001" in house.now("release", "list", JOB)
    assert "s0001" in house.now("snapshot", "list", JOB)
    house.now("snapshot", "verify", f"{JOB}/totals")
    house.now("prune")
    house.now("watch", "--once")
    house.now("release", "push", JOB, *house.params(50), *HASTE[2:])
    house.goes_on()
    house.serves("r0001", house.previous)

    house.now("deploy", JOB, "--release", "r0002", *HASTE[:2], "--reason", "upgrade")
    house.serves("r0002", PLUGINS)
    house.goes_on()

    assert "upgrade" in house.before("history", JOB)
    house.before("rollback", JOB, "--release", "r0001", *HASTE[:2], "--reason", "back again")
    house.serves("r0001", house.previous)
    house.goes_on()

    appointed, tomorrow = house.state.appointed, write_of_tomorrow(house)
    assert tomorrow in house.before_refuses("history", JOB)
    wait_for("the end of the driver", lambda: house.exit(appointed) is not None, timeout_s=60)
    house.bed.installation.store.delete(tomorrow)

    house.now("start", JOB, "--reason", "the previous version is gone")
    house.serves("r0001", PLUGINS)
    house.balance()
