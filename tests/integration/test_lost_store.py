"""Tests of the runbook entry for a lost store (``docs/operations/runbook.md``): the store is deleted under a real
driver and rebuilt.

No row is lost or doubled: the output equals the input in the end, for a table with the store in a directory, and, in
``make test-storage``, for files with the store in a bucket.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.ledger import Account, compare_events
from harness.outputs import read_event_ids
from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import open_batch
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import JournalLost
from streamkeeper.model.records.journal_records import About, Outcome
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.backups.backup import back_up
from streamkeeper.operations.deploys.approval import answer_approval
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.registry.installations import open_installation
from streamkeeper.runners.leftovers import find_leftovers
from streamkeeper.sinks.fences import read_fences
from streamkeeper.stores.local import LocalStore
from tests.integration.test_recovery import HASTE, JOB, QUERY, ROOT, House

pytestmark = [pytest.mark.storage, pytest.mark.spark, pytest.mark.timeout(600)]


class Installed(House):
    """A test installation that has its id, like a deployed one."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.open()

    def open(self) -> None:
        """Open the installation as a command does."""
        settings = self.installation.settings
        own = {"HOME": settings.home, "STORE": settings.store, "CHECKPOINTS": settings.checkpoints}
        environ = {**os.environ, **{f"STREAMKEEPER_{name}": value for name, value in own.items()}}
        self.installation = Installation.from_environment({**environ, "STREAMKEEPER_JOBS": str(ROOT / "jobs")})

    def open_deploy(self, operation: str) -> Deploy:
        """Open a deploy of the unchanged job without running it."""
        params = {"input": str(self.input), "warehouse": f"sqlite:///{self.warehouse}", "trigger": "200 milliseconds"}
        conf = {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"}
        return Deploy.open(self.installation, operation, DeployRequest(job=JOB, params=params, conf=conf, **HASTE))

    def refuses_without_rebuild(self) -> None:
        """Negative control: check that a deploy into the lost store without a rebuild is refused, and put the store
        back unchanged.
        """
        store, aside = self.root / "store", self.root / "store-aside"
        shutil.copytree(store, aside)
        self.open()
        with pytest.raises(JournalLost, match=f"streamkeeper registry rebuild {JOB}"):
            self.open_deploy("too-early")
        # Where not even its driver's last word is left, the output still says whose it is.
        shutil.rmtree(store)
        self.open()
        too_early = self.open_deploy("too-early").run()
        assert too_early.outcome is Outcome.REFUSED, too_early.sentence
        assert "output-of-another-installation" in too_early.sentence, too_early.sentence
        shutil.rmtree(store)
        aside.rename(store)

    def rebuild(self, *words: str) -> tuple[int, str]:
        """Run ``registry rebuild`` with the words, and return its exit code and output."""
        done = self.command(
            "registry", "rebuild", "--output", f"sqlite:///{self.warehouse}", *words, "--no-driver-elsewhere"
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def fence(self) -> tuple[int, str, int, str]:
        """The epoch, version, batch and installation in the table's own row."""
        with sqlite3.connect(self.warehouse, timeout=30) as connection:
            told = "SELECT epoch, version, batch_id, installation FROM streamkeeper_outputs"
            return next(iter(connection.execute(told)))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Installed]:
    """A running job with two committed batches."""
    house = Installed(tmp_path)
    try:
        house.add(("a", 1), ("b", 2))
        house.deploy()
        house.settle()
        house.add(("a", 3))
        house.settle()
        yield house
    finally:
        house.close()
        for each in find_leftovers(JOB, house.installation.settings):
            house.installation.runner.kill(JOB, each.instance)


def test_a_store_that_is_deleted_under_a_driver_is_rebuilt_and_nothing_is_lost_or_doubled(house: Installed) -> None:
    """After the store is deleted, the rebuild names the driver that still runs, and the driver stops by itself; the job
    continues from its checkpoint above every earlier epoch once a person has approved the unknown old code.

    Negative control: the same deploy without the rebuild is refused by the output's fence, and writes nothing.
    """
    before, settings = house.fence, house.installation.settings
    shutil.rmtree(house.root / "store")
    # What the watch does a minute later: a store that answers, and is empty.
    assert open_installation(LocalStore(house.root / "store"), settings.home).id != before[3]
    code, told = house.rebuild("--dry-run")
    assert code == 1, told
    assert "first-candidate still runs on" in told, told
    house.add(("b", 4), ("c", 5))
    wait_for("the driver's own end", lambda: not find_leftovers(JOB, settings))
    house.refuses_without_rebuild()
    assert house.fence == before
    assert house.totals() != house.oracle

    code, told = house.rebuild("--reason", "the directory was deleted")
    assert code == 0, told
    house.open()
    state = house.installation.journal(JOB, "test").state()
    assert (house.installation.id, state.current, state.next_epoch(QUERY)) == (
        before[3],
        {QUERY: "v0001"},
        before[0] + 1,
    )
    assert "rebuilt from checkpoints on" in house.command("history", JOB).stdout

    deploy = house.open_deploy("again")
    deploy.run(Step.KEEP_STATE)
    operation = deploy.state.operations["again"]
    assert operation.transitions[QUERY].opaque, operation.verdict_sentence
    assert not operation.fall_back
    answer_approval(
        house.installation, JOB, "again", approved=True, by="ada", reason="the same code", about=About.STATE
    )
    done = deploy.run()
    assert done.outcome is Outcome.SUCCEEDED, done.sentence
    house.settle()
    assert house.fence[0] == before[0] + 1
    assert (house.fence[1], house.fence[3]) == (before[1], before[3])
    assert house.directory.name == "v0001"


COPY, COPIES = "event_copy", "copy"


class Copying:
    """An installation whose store and snapshots are on S3, with a job that copies every event into files."""

    def __init__(self, root: Path, url: str) -> None:
        self.root, self.input, self.output = root, root / "input", root / "copies"
        self.events: list[str] = []
        for folder in (self.input, root / "home", root / "drafts"):
            folder.mkdir()
        places = {"HOME": root / "home", "CHECKPOINTS": root / "cp", "JOBS": ROOT / "jobs"}
        stores = {"STORE": f"{url}/store", "SNAPSHOTS": f"{url}/snapshots"}
        self.environment = {f"STREAMKEEPER_{name}": str(place) for name, place in {**places, **stores}.items()}
        self.open()

    def open(self) -> None:
        """Open the installation as a command does."""
        self.installation = Installation.from_environment({**os.environ, **self.environment})

    def command(self, *words: str) -> tuple[int, str]:
        """Run a command in a process of its own, and return its exit code and all its output."""
        done = subprocess.run(
            [sys.executable, "-m", "streamkeeper.cli.main", *words],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def add(self, rows: int) -> None:
        """Add one more file of events."""
        name = f"{len(self.events):06d}.csv"
        events = [f"e{len(self.events) + row}" for row in range(rows)]
        draft = self.root / "drafts" / name
        draft.write_text("".join(f"{event},ada,seen,1\n" for event in events))
        os.rename(draft, self.input / name)
        self.events += events

    def open_deploy(self, operation: str) -> Deploy:
        """Open a deploy of the unchanged job without running it."""
        params = {"input": str(self.input), "output": str(self.output), "trigger": "200 milliseconds"}
        conf = {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"}
        return Deploy.open(self.installation, operation, DeployRequest(job=COPY, params=params, conf=conf, **HASTE))

    @property
    def ledger(self) -> Account:
        return compare_events(COPY, self.events, read_event_ids(self.output))

    @property
    def checkpoint(self) -> LocalTree:
        return LocalTree(self.root / "cp" / COPY / COPIES / "v0001")

    def settle(self) -> None:
        """Wait until every event is in the output and the batch with the last event is committed."""
        wait_for("the copies", lambda: self.ledger.clean)
        wait_for("the last commit", lambda: open_batch(self.checkpoint) is None)

    def back_up(self) -> str:
        """Take a snapshot and return its name."""
        return back_up(self.installation.snapshots, query_target(self.installation, COPY, COPIES)).snapshot.name

    def lose_store(self) -> None:
        """Delete every object of the store, as when a bucket is emptied."""
        for key in list(self.installation.store.list("")):
            self.installation.store.delete(key)

    def close(self) -> None:
        for leftover in find_leftovers(COPY, self.installation.settings):
            self.installation.runner.kill(COPY, leftover.instance)


@pytest.fixture
def copying(tmp_path: Path, s3_url: str) -> Iterator[Copying]:
    """A running job with one committed batch and a snapshot of it."""
    copying = Copying(tmp_path, s3_url)
    try:
        copying.add(3)
        done = copying.open_deploy("first").run()
        assert done.outcome is Outcome.SUCCEEDED, done.sentence
        copying.settle()
        assert copying.back_up() == "s0001"
        yield copying
    finally:
        copying.close()


@pytest.mark.s3
def test_a_store_on_s3_that_is_deleted_under_a_driver_is_rebuilt_for_an_output_of_files(copying: Copying) -> None:
    """After a store on S3 is deleted and rebuilt, the snapshots, which are stored separately on S3, still belong to the
    installation, and the output files contain every event once.

    Negative control: the same deploy without the rebuild is refused by the output's fence, and writes nothing.
    """
    (before,) = read_fences(str(copying.output))
    copying.lose_store()
    copying.add(2)
    wait_for("the driver's own end", lambda: not find_leftovers(COPY, copying.installation.settings))
    held = copying.ledger
    assert (held.lost, held.duplicated) == (2, 0)

    copying.open()
    with pytest.raises(JournalLost, match=f"streamkeeper registry rebuild {COPY}"):
        copying.open_deploy("too-early")
    # Where not even its driver's last word is left, the output still says whose it is.
    copying.lose_store()
    copying.open()
    too_early = copying.open_deploy("too-early").run()
    assert too_early.outcome is Outcome.REFUSED, too_early.sentence
    assert "output-of-another-installation" in too_early.sentence, too_early.sentence
    assert (copying.ledger, read_fences(str(copying.output))) == (held, [before])
    copying.lose_store()

    words = ("registry", "rebuild", "--output", str(copying.output), "--no-driver-elsewhere")
    code, told = copying.command(*words, "--reason", "the bucket was emptied")
    assert code == 0, told
    assert "query copy: v0001 was current (batch 0 committed)" in told, told
    copying.open()
    state = copying.installation.journal(COPY, "test").state()
    assert copying.installation.id == before.installation
    assert (state.current, state.next_epoch(COPIES)) == ({COPIES: "v0001"}, before.epoch + 1)

    deploy = copying.open_deploy("again")
    deploy.run(Step.KEEP_STATE)
    answer_approval(
        copying.installation, COPY, "again", approved=True, by="ada", reason="the same code", about=About.STATE
    )
    done = deploy.run()
    assert done.outcome is Outcome.SUCCEEDED, done.sentence
    copying.settle()
    (after,) = read_fences(str(copying.output))
    assert (after.epoch, after.version, after.installation) == (before.epoch + 1, "v0001", before.installation)
    assert (before.batch, after.batch) == (0, 1)
    # In the series that the first installation began, beside what the deploy itself has kept.
    assert copying.back_up() > "s0001"
    assert "s0001" in copying.command("snapshot", "list", f"{COPY}/{COPIES}")[1]
