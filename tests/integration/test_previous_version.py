"""Tests of an installation of the previous Streamkeeper version under this version's commands and drivers, and back
under the previous version's.

``previous/code.tar.gz`` contains the previous version's code, so that neither tags nor history are required;
``scripts/keep-version`` replaces it with the next one.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import suppress
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
from streamkeeper.model.protocol.driver_messages import DriverExit
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_keys import entry_key
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.registry.driver_control import Control

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
PREVIOUS = Path(__file__).parent / "previous"
PLUGINS = ROOT / "plugins"
JOB = "sales_totals"
HASTE = ("--probation-batches", "0", "--conf", "spark.master=local[1]", "--conf", "spark.sql.shuffle.partitions=1")


class House:
    """One installation with one job on which two versions work; ``previous`` is the plugins folder of the older
    version.

    ``function`` is a Python function through which the job reads each customer; empty for none.
    """

    def __init__(self, root: Path, function: str = "") -> None:
        kept = json.loads((PREVIOUS / "kept.json").read_text())
        code = PREVIOUS / "code.tar.gz"
        assert hashlib.sha256(code.read_bytes()).hexdigest() == kept["sha256"], "scripts/keep-version writes both"
        with tarfile.open(code) as archive:
            archive.extractall(root / "previous", filter="data")
        self.previous = root / "previous" / "plugins"
        self.job_file = root / "previous" / "jobs" / f"{JOB}.py"
        self.plain = self.job_file.read_text()
        if function:
            self.call(function)
        self.bed = Bed(root, [self.job_file])
        self.job_file = self.bed.jobs / self.job_file.name
        self.warehouse = root / "warehouse.db"

    def now(self, *words: str) -> str:
        """Run this version's command, require that it succeeds, and return its output."""
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return done.output

    def before(self, *words: str) -> str:
        """Run the previous version's command, require that it succeeds, and return its output."""
        done = self.bed.command(*words, extra={"PYTHONPATH": str(self.previous)})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def before_refuses(self, *words: str) -> str:
        """Run the previous version's command, require that it fails, and return its one-line error."""
        done = self.bed.command(*words, extra={"PYTHONPATH": str(self.previous)})
        assert done.returncode != 0, done.stdout
        assert [line.startswith("error: ") for line in done.stderr.splitlines()] == [True], done.stderr
        return done.stderr

    def call(self, function: str) -> None:
        """Make the job's file read each customer through this function."""
        declared = f'SALES = "event_id string, customer string, amount long"\n\n\n{function}\n'
        called = '.csv(params["input"]).withColumn("customer", F.udf(read, "string")("customer"))'
        text = self.plain.replace('SALES = "event_id string, customer string, amount long"\n', declared)
        self.job_file.write_text(text.replace('.csv(params["input"])', called))

    def ask(self, code: Path, *words: str) -> OperationState:
        """Deploy with this code until it waits for a person's approval, kill the command there, and return the open
        operation.
        """
        environment = {**self.bed.environment, "PYTHONPATH": str(code)}
        with (self.bed.root / f"ask-{len(self.state.operations)}.log").open("wb") as log:
            command = subprocess.Popen(
                self.bed.program("deploy", JOB, *words), env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            wait_for("the question", lambda: command.poll() is not None or self.asked() is not None, timeout_s=400)
        finally:
            command.kill()
            command.wait()
        asked = self.asked()
        assert asked is not None, Path(log.name).read_text()
        return asked

    def asked(self) -> OperationState | None:
        """Return the open operation if its state has been kept, so that the approval is its next step."""
        operation = self.state.open_operation
        kept = operation is not None and operation.has_done(Step.KEEP_STATE)
        return operation if kept else None

    def end_driver(self) -> None:
        """Kill every process of the appointed driver while it is idle, as the loss of its machine would.

        A driver killed between listing and planning files would leave a checkpoint that needs a person's decision at
        the start.
        """
        self.balance()
        killed = list(self.bed.processes())
        for each in killed:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        # A killed JVM needs a moment to give its memory back, and until then it counts as alive.
        _, left = psutil.wait_procs(killed, timeout=30)
        assert not left
        assert not list(self.bed.processes())

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
        """Check that this release is the serving one and that its driver runs this code."""
        state = self.state
        assert state.serving_release == release
        supervisors = [each for each in self.bed.processes() if "streamkeeper.runners.supervisor" in _words(each)]
        runs = {(each.environ()["STREAMKEEPER_INSTANCE"], each.environ()["PYTHONPATH"]) for each in supervisors}
        assert runs == {(f"{JOB}/{state.appointed}", str(code))}

    def goes_on(self) -> None:
        """Wait until the output contains all sales so far, and check that the driver is still the same."""
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
        """Stop the producer and check that the table contains every sale exactly once."""
        self.bed.stop_producer()
        sold = expected_totals(self.bed.input / "sales")
        wait_for("the last sales", lambda: self.out() == sold, timeout_s=60)
        assert compare_totals("sales", sold, self.out()).clean


def _words(process: psutil.Process) -> list[str]:
    """Return the command line of a process; empty if it has ended since it was found, as the short-lived forks of a JVM
    do.
    """
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


@pytest.fixture
def house(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """An installation in which a job of the previous version runs while sales keep arriving."""
    house = House(tmp_path, getattr(request, "param", ""))
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
    """Append a journal record that neither version can read and that no driver may skip; return the entry's key."""
    number = house.state.number + 1
    entry = {"number": number, "at": "", "by": "tomorrow", "record": {"type": "slept"}, "drivers_may_pass": False}
    house.bed.installation.store.create(entry_key(JOB, number), json.dumps(entry).encode())
    return entry_key(JOB, number)


def test_a_job_is_upgraded_from_the_previous_version_and_rolled_back(house: House) -> None:
    """A driver of the previous version keeps running under this version's commands; a deploy hands the job over to this
    version and a rollback hands it back, and no sale is lost or doubled.

    Negative control: a record that the previous version's driver must understand, and does not, stops it; this version
    then starts its release from the existing description.
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


@pytest.mark.storage
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("house", ["def read(name):\n    return name.strip()\n"], indirect=True)
def test_an_open_approval_and_killed_drivers_survive_a_version_change(house: House) -> None:
    """An approval requested by the previous version is answered in this version, which completes the deploy. After a
    kill, each version restarts the job, and no sale is lost or doubled.
    """
    house.call("def read(name):\n    return name.strip(' ')\n")
    words = (*house.params(100), *HASTE, "--reason", "only blanks")
    operation = house.ask(house.previous, *words).operation
    assert "read" in house.now("question", JOB, operation)
    house.now("approve", JOB, operation, "--reason", "customers have no other white space")
    house.now("deploy", JOB, *words, "--on-open", "continue")
    assert house.state.operations[operation].outcome is Outcome.SUCCEEDED
    assert house.state.serving_release == "r0002"
    house.goes_on()

    for start, code in ((house.now, PLUGINS), (house.before, house.previous)):
        house.end_driver()
        start("start", JOB, "--reason", "its processes were killed")
        house.serves("r0002", code)
        house.bed.start_producer(seed=2)
        house.goes_on()
    house.balance()
