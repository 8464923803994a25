"""Tests of the recovery from damaged checkpoints and killed drivers, with real drivers and a real table."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import last_committed, open_batch
from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.cli.main import app
from streamkeeper.errors import OperationRefused
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.requests.diagnosis import Diagnosis, Problem, RecoveryAction
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.settings.settings import Settings
from streamkeeper.operations.backups.backup import back_up
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.operations.recovery.diagnosing import diagnose_job
from streamkeeper.operations.recovery.recovering import RecoveryRequest, open_recovery
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.contract import Life
from streamkeeper.stores.local import LocalStore

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
JOB, QUERY = "sales_totals", "totals"
RESTART, RESTORE, REBUILD = RecoveryAction.RESTART, RecoveryAction.RESTORE, RecoveryAction.REBUILD
REPLAN = RecoveryAction.REPLAN
HASTE = {"probation_batches": 0, "first_commit_s": 120.0, "probation_s": 120.0}


class House:
    """A test installation that runs one job; ``expected`` is what its table must contain."""

    jobs: ClassVar[tuple[str, ...]] = (JOB,)
    patience_s: ClassVar[float] = 120.0

    def __init__(self, root: Path, checkpoints: str = "", master: str = "") -> None:
        self.root, self.input, self.warehouse = root, root / "input", root / "warehouse.db"
        self.input.mkdir()
        (root / "home").mkdir()
        settings = Settings(
            store=str(root / "store"),
            checkpoints=checkpoints or str(root / "cp"),
            jobs=str(self.job_files),
            home=str(root / "home"),
            master=master,
        )
        store = LocalStore(root / "store")
        self.installation = Installation.of(settings, store, {})
        self.expected: dict[str, list[int]] = {}
        self.files = 0

    def add(self, *rows: tuple[str, int]) -> None:
        """Add one more input file."""
        self.files += 1
        draft = self.root / "draft"
        draft.write_text("".join(f"f{self.files}e{n},{name},{amount}\n" for n, (name, amount) in enumerate(rows)))
        for name, amount in rows:
            self.expected.setdefault(name, []).append(amount)
        os.rename(draft, self.input / f"f{self.files:06d}.csv")

    def deploy(self) -> None:
        """Deploy the unchanged job."""
        params = {"input": str(self.input), "warehouse": f"sqlite:///{self.warehouse}", "trigger": "200 milliseconds"}
        conf = {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"}
        done = Deploy.open(self.installation, "first", DeployRequest(job=JOB, params=params, conf=conf, **HASTE)).run()
        assert done.outcome is Outcome.SUCCEEDED, done.sentence

    @property
    def job_files(self) -> Path:
        """The folder of the installation's job files."""
        return ROOT / "jobs"

    @property
    def directory(self) -> Path:
        """The directory of the current checkpoint version."""
        return self.root / "cp" / JOB / QUERY / self.checkpoint.name

    @property
    def checkpoint(self) -> Tree:
        """The current checkpoint version as a tree of files, in whichever storage it is."""
        state = self.installation.journal(JOB, "test").state()
        current = state.current_version(QUERY)
        assert current is not None
        return self.installation.checkpoint(state, QUERY, current.version)

    @property
    def version(self) -> int:
        """The number of the current checkpoint version."""
        return int(self.checkpoint.name.removeprefix("v"))

    @property
    def instance(self) -> str:
        return self.installation.journal(JOB, "test").state().appointed

    def totals(self) -> dict[str, tuple[int, int]]:
        with sqlite3.connect(self.warehouse, timeout=30) as connection:
            return {row[0]: row[1:] for row in connection.execute("SELECT customer, sales, total FROM sales_totals")}

    @property
    def oracle(self) -> dict[str, tuple[int, int]]:
        return {name: (len(each), sum(each)) for name, each in self.expected.items()}

    def settle(self) -> None:
        """Wait until the table contains all added rows and the checkpoint and the driver's status confirm the
        commit.
        """
        wait_for("the table", lambda: self.totals() == self.oracle, self.patience_s)
        # The table has a batch before its commit is there.
        wait_for("the last commit", lambda: open_batch(self.checkpoint) is None)
        wait_for("the driver's word", lambda: self._told() == last_committed(self.checkpoint))

    def _told(self) -> int | None:
        status = Control(self.installation.store, JOB, self.instance).read_status()
        return status.queries[QUERY].committed if status is not None else None

    def serves(self) -> bool:
        """Return whether the driver is alive and its table contains all added rows."""
        alive = self.installation.runner.observe(JOB, self.instance).life is Life.ALIVE
        return alive and self.totals() == self.oracle

    def kill(self) -> None:
        """Kill the driver's whole process tree with SIGKILL, and wait until it is proven dead."""
        instance = self.instance
        self.installation.runner.kill(JOB, instance)
        wait_for("its end", lambda: self.installation.runner.observe(JOB, instance).life is Life.DEAD, 30)

    def take(self) -> str:
        return back_up(self.installation.snapshots, query_target(self.installation, JOB, QUERY)).snapshot.name

    def look(self) -> Diagnosis:
        return diagnose_job(self.installation, JOB)

    def recover(self, operation: str, action: RecoveryAction, *, approve_s: float = 24 * 3600.0, **more: object) -> str:
        """Run the recovery, require that it succeeds, and return its sentence."""
        request = DeployRequest(job=JOB, reason="drill", requested_by="ada", approve_s=approve_s, **HASTE)
        asked = RecoveryRequest(request=request, action=action, **more)
        done = open_recovery(self.installation, f"{operation}-{self.files}", asked).run()
        assert done.outcome is Outcome.SUCCEEDED, done.sentence
        return done.sentence

    def command(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command; in a process of its own if it is to die at a crash point."""
        settings = self.installation.settings
        own = {"HOME": settings.home, "STORE": settings.store, "CHECKPOINTS": settings.checkpoints}
        own |= {"MASTER": settings.master, "DRIVERS": settings.drivers}
        env = {f"STREAMKEEPER_{name}": value for name, value in own.items()}
        env |= settings.runner_variables | environ
        if "STREAMKEEPER_CRASH" not in environ:
            done = CliRunner().invoke(app, list(words), env=env)
            return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)
        return subprocess.run(
            [sys.executable, "-m", "streamkeeper.cli.main", *words],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def close(self) -> None:
        for job in self.jobs:
            for each in self.installation.journal(job, "test").state().instances:
                self.installation.runner.kill(job, each)


@pytest.fixture(scope="module")
def houses() -> Iterator[list[House]]:
    """The installations that the tests of this module have created so far; closed at the end."""
    made: list[House] = []
    yield made
    for house in made:
        house.close()


@pytest.fixture
def house(houses: list[House], tmp_path_factory: pytest.TempPathFactory) -> House:
    """An installation with a running job and a snapshot that lacks the last batch; it is reused from the previous test
    if that test left it healthy.
    """
    if not houses or not houses[-1].serves():
        houses.append(House(tmp_path_factory.mktemp("house")))
        houses[-1].add(("a", 1), ("b", 2))
        houses[-1].deploy()
    house = houses[-1]
    house.settle()
    house.add(("a", 3))
    house.settle()
    house.take()
    house.add(("b", 4), ("c", 5))
    house.settle()
    return house


def test_a_deleted_checkpoint_is_restored_once_the_loss_is_accepted(house: House) -> None:
    """A deleted checkpoint is diagnosed with the possible loss, and is restored only after the loss is accepted; then
    the table equals the input, and the next driver rehearses on the restored checkpoint.
    """
    version = house.version
    house.kill()
    assert house.look().cause is Problem.DRIVER_KILLED
    shutil.rmtree(house.directory)
    found = house.look()
    assert found.cause is Problem.CHECKPOINT_LOST
    assert found.options[0].action is RESTORE
    assert "LOSES possibly" in found.options[0].prices[0].sentence
    with pytest.raises(OperationRefused, match="--accept-loss"):
        house.recover("refused", RESTORE)
    house.add(("d", 6))
    sentence = house.recover("restored", RESTORE, accepted_by="ada", accept_loss=True)
    assert "is the current release" in sentence
    assert house.version == version + 1
    house.settle()
    assert house.look().cause is Problem.NOTHING_WRONG
    house.kill()
    house.recover("restarted", RESTART)
    status = Control(house.installation.store, JOB, house.instance).read_status()
    assert status is not None
    assert status.warm_up.startswith("ok: totals"), status.warm_up
    house.add(("a", 7))
    house.settle()


def test_a_flipped_bit_in_a_state_file_is_repaired_by_restore(house: House) -> None:
    """A state file with a flipped bit is repaired by a restore, which reports how many files it reads again and replays
    them by key; a second damaged file is repaired by a rebuild into a new version.
    """
    version = house.version
    house.kill()
    flip(house.directory)
    found = house.look()
    assert found.cause is Problem.CHECKPOINT_DAMAGED
    assert not found.option(RESTORE).asks
    assert "1 file" in found.option(RESTORE).prices[0].read
    house.recover("restored", RESTORE)
    house.add(("e", 8))
    house.settle()
    house.kill()
    flip(house.directory)
    house.recover("rebuilt", REBUILD, approve_s=5.0)
    house.add(("f", 9))
    house.settle()
    assert house.version == version + 2


def test_a_last_commit_that_is_deleted_is_mended_by_a_restart(house: House) -> None:
    """After the last commit file is deleted, a restart runs the batch under its own number, and the table skips it."""
    version = house.version
    house.kill()
    newest = last_committed(LocalTree(house.directory))
    (house.directory / "commits" / str(newest)).unlink()
    found = house.look()
    assert (found.cause, found.options[0].action) == (Problem.CHECKPOINT_DAMAGED, RESTART)
    house.recover("restarted", RESTART)
    house.add(("a", 10))
    house.settle()
    assert house.version == version


def test_a_killed_restore_is_completed_by_the_same_command(house: House) -> None:
    """A checkpoint without an offset in the middle, on which Spark never starts (SPARK-38033), is restored from a
    snapshot. The command is killed after it records the new version and after the appointment; running it once more
    completes the same operation.
    """
    version, before = house.version, house.installation.journal(JOB, "test").state().operations.keys()
    house.kill()
    newest = last_committed(LocalTree(house.directory))
    assert newest is not None
    (house.directory / "offsets" / str(newest - 1)).unlink()
    found = house.look()
    assert found.cause is Problem.CHECKPOINT_DAMAGED
    assert "offset-missing-in-the-middle" in found.sentence
    assert not found.option(RESTART).possible
    words = ["recover", JOB, "--action", "restore", "--probation-batches", "0"]
    for point in ("restore.record.after", "act.go.appoint.after"):
        killed = house.command(*words, STREAMKEEPER_CRASH=point)
        assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    last = house.command(*words)
    assert last.returncode == 0, last.stdout + last.stderr
    operations = house.installation.journal(JOB, "test").state().operations
    assert [operations[name].outcome for name in operations.keys() - before] == [Outcome.SUCCEEDED]
    assert house.version == version + 1
    house.add(("z", 11))
    house.settle()


def test_a_batch_whose_plan_is_cut_short_is_planned_again(house: House) -> None:
    """A replan that is killed after it records the new version is completed by the same command: every row is present
    once, and the damaged directory is unchanged. Negative controls: a restart is refused because Spark cannot start on
    the damaged plan, and a restore would go back two batches.
    """
    house.add(("a", 4))
    house.settle()
    version, before = house.version, house.installation.journal(JOB, "test").state().operations.keys()
    batch, damaged = kill_with_open_batch(house), house.directory
    left = content_of(damaged)
    found = house.look()
    assert (found.cause, found.options[0].action) == (Problem.CHECKPOINT_DAMAGED, REPLAN), found
    assert f"reads batch {batch}, perhaps with other offsets (1 files" in found.options[0].prices[0].sentence
    assert "2 batches after batch" in found.option(RESTORE).prices[0].sentence
    with pytest.raises(OperationRefused, match="Spark refuses to start"):
        house.recover("restarted", RESTART)
    words = ["recover", JOB, "--action", "replan", "--probation-batches", "0", "--reason", "plan cut short"]
    first = house.command(*words, STREAMKEEPER_CRASH="restore.record.after")
    assert first.returncode == -signal.SIGKILL, first.stdout + first.stderr
    second = house.command(*words)
    assert second.returncode == 0, second.stdout + second.stderr
    operations = house.installation.journal(JOB, "test").state().operations
    assert [operations[name].outcome for name in operations.keys() - before] == [Outcome.SUCCEEDED]
    assert house.version == version + 1
    house.settle()
    house.add(("c", 7))
    house.settle()
    assert content_of(damaged) == left


def test_a_batch_that_the_table_holds_is_not_planned_again(house: House) -> None:
    """A replan is refused when the table already contains the batch whose commit and plan are damaged, because other
    rows in it would be skipped. Negative control: when the damaged plan is deleted by hand instead, the diagnosis
    reports the checkpoint as lost.
    """
    house.kill()
    batch = last_committed(house.checkpoint)
    assert batch is not None
    for name in (str(batch), f".{batch}.crc"):
        (house.directory / "commits" / name).unlink(missing_ok=True)
    cut_short(house.directory, batch)
    refused = house.look().option(REPLAN).why_not
    assert f"contains batch {batch}; planned again with other rows, the batch would be skipped" in refused
    with pytest.raises(OperationRefused, match="planned again"):
        house.recover("replanned", REPLAN)
    for name in (str(batch), f".{batch}.crc"):
        (house.directory / "offsets" / name).unlink(missing_ok=True)
    assert house.look().cause is Problem.CHECKPOINT_LOST


def flip(directory: Path) -> None:
    """Flip one bit of the newest state file that a start loads."""
    files = [each for each in (directory / "state" / "0" / "0").iterdir() if each.suffix in (".changelog", ".zip")]
    newest = max(files, key=lambda each: each.stat().st_mtime)
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 0x40
    newest.write_bytes(bytes(content))


def kill_with_open_batch(house: House) -> int:
    """Let the driver plan one more batch without writing it, kill the driver, truncate the plan, and return the
    batch.
    """
    committed = last_committed(house.checkpoint)
    assert committed is not None
    # The table cannot be written while somebody else writes the database.
    with sqlite3.connect(house.warehouse, timeout=30, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        house.add(("b", 5), ("c", 6))
        wait_for("the plan", lambda: open_batch(house.checkpoint) == committed + 1, 60)
        house.kill()
        other.execute("ROLLBACK")
    cut_short(house.directory, committed + 1)
    return committed + 1


def cut_short(directory: Path, batch: int) -> None:
    """Truncate the batch's plan to half its size, as after a power failure."""
    plan = directory / "offsets" / str(batch)
    plan.write_bytes(plan.read_bytes()[: plan.stat().st_size // 2])


def content_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
