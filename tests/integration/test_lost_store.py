"""The drill of docs/runbook.md, "The store is lost": a real driver under a store that is deleted, and what comes after.

Nothing is lost and nothing doubled: the table equals the input in the end.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import wait_for
from streamkeeper.model.journal import About, Outcome
from streamkeeper.model.request import DeployRequest
from streamkeeper.model.step import Step
from streamkeeper.operations.approval import answer_approval
from streamkeeper.operations.deploy import Deploy
from streamkeeper.operations.installation import Installation
from streamkeeper.registry.installations import open_installation
from streamkeeper.runners.leftovers import find_leftovers
from streamkeeper.stores.local import LocalStore
from tests.integration.test_recovery import HASTE, JOB, QUERY, ROOT, House

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Installed(House):
    """A house whose installation has its id, as a deployed one has."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.open()

    def open(self) -> None:
        """The site as a command finds it."""
        settings = self.site.settings
        own = {"HOME": settings.home, "STORE": settings.store, "CHECKPOINTS": settings.checkpoints}
        environ = {**os.environ, **{f"STREAMKEEPER_{name}": value for name, value in own.items()}}
        self.site = Installation.from_environment({**environ, "STREAMKEEPER_JOBS": str(ROOT / "jobs")})

    def rebuild(self, *words: str) -> tuple[int, str]:
        """What somebody types."""
        done = self.command(
            "registry", "rebuild", "--output", f"sqlite:///{self.warehouse}", *words, "--no-driver-elsewhere"
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def fence(self) -> tuple[int, str, int, str]:
        """Epoch, version, batch and installation, in the table's own row."""
        with sqlite3.connect(self.warehouse, timeout=30) as connection:
            told = "SELECT epoch, version, batch_id, installation FROM streamkeeper_outputs"
            return next(iter(connection.execute(told)))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Installed]:
    """A job that serves two batches."""
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
        for each in find_leftovers(JOB, house.site.settings):
            house.site.runner.kill(JOB, each.instance)


def test_a_store_that_is_deleted_under_a_driver_is_rebuilt_and_nothing_is_lost_or_doubled(house: Installed) -> None:
    """The driver is named and ends by itself; the job goes on from its checkpoint, above every epoch of before, once a
    person has said that nobody knows what the old code was."""
    before, settings = house.fence, house.site.settings
    shutil.rmtree(house.root / "store")
    # What the watch does a minute later: a store that answers, and is empty.
    assert open_installation(LocalStore(house.root / "store"), settings.home).id != before[3]
    code, told = house.rebuild("--dry-run")
    assert code == 1, told
    assert "first-candidate still runs on" in told, told
    house.add(("b", 4), ("c", 5))
    wait_for("the driver's own end", lambda: not find_leftovers(JOB, settings))
    assert house.fence == before
    assert house.totals() != house.oracle

    code, told = house.rebuild("--reason", "the directory was deleted")
    assert code == 0, told
    house.open()
    state = house.site.journal(JOB, "test").state()
    assert (house.site.id, state.current, state.next_epoch(QUERY)) == (before[3], {QUERY: "v0001"}, before[0] + 1)
    assert "rebuilt from checkpoints on" in house.command("history", JOB).stdout

    params = {"input": str(house.input), "warehouse": f"sqlite:///{house.warehouse}", "trigger": "200 milliseconds"}
    conf = {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"}
    deploy = Deploy.open(house.site, "again", DeployRequest(job=JOB, params=params, conf=conf, **HASTE))
    deploy.run(Step.KEEP_STATE)
    operation = deploy.state.operations["again"]
    assert operation.ways[QUERY].opaque, operation.verdict_sentence
    assert not operation.fall_back
    answer_approval(house.site, JOB, "again", approved=True, by="ada", reason="the same code", about=About.STATE)
    done = deploy.run()
    assert done.outcome is Outcome.SUCCEEDED, done.sentence
    house.settle()
    assert house.fence[0] == before[0] + 1
    assert (house.fence[1], house.fence[3]) == (before[1], before[3])
    assert house.directory.name == "v0001"
