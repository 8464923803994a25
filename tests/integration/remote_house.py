"""A job whose checkpoints lie on no disk of this machine, and what it goes through: for S3 and HDFS alike."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import msgspec

from streamkeeper.checkpoints.layout import open_batch
from streamkeeper.model.journal import Outcome
from streamkeeper.model.recovery import Cause, RecoveryAction
from streamkeeper.model.release import ParamValue
from streamkeeper.model.request import DeployRequest, Strategy
from streamkeeper.model.ways import Way
from streamkeeper.operations.deploy import Deploy
from streamkeeper.operations.installation import Installation
from streamkeeper.runners.local_process import LocalProcessRunner
from tests.integration.test_recovery import JOB, QUERY, ROOT, House


class Remote(House):
    """A house with its checkpoints somewhere else."""

    conf: ClassVar[dict[str, str]] = {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"}

    @property
    def database(self) -> str:
        """The URL of the one that its table is in."""
        return f"sqlite:///{self.warehouse}"

    def move(self, checkpoints: str) -> None:
        """From now on new checkpoint versions lie elsewhere."""
        settings, store = msgspec.structs.replace(self.site.settings, checkpoints=checkpoints), self.site.store
        self.site = Installation(settings=settings, store=store, runner=LocalProcessRunner(store, settings))

    def next(
        self, operation: str, *, trigger: str, strategy: Strategy = Strategy.AUTO, accept_risk: bool = False
    ) -> tuple[Way, str]:
        """Deploy again: the way it went, and the checkpoint version that serves then."""
        params: dict[str, ParamValue] = {"input": str(self.input), "warehouse": self.database, "trigger": trigger}
        request = DeployRequest(
            job=JOB,
            params=params,
            conf=self.conf,
            strategy=strategy,
            accept_risk=accept_risk,
            requested_by="ada",
            probation_batches=1,
            first_commit_s=120.0,
            probation_s=120.0,
        )
        deploy = Deploy.open(self.site, operation, request)
        done = deploy.run()
        assert done.outcome is Outcome.SUCCEEDED, done.sentence
        return deploy.state.operations[operation].ways[QUERY].way, self.checkpoint.name

    def must(self, *words: str) -> None:
        """What somebody types, and what must end well."""
        done = self.command(*words)
        assert done.returncode == 0, done.stdout + done.stderr

    def roll_back(self) -> None:
        """To the release before."""
        self.must("rollback", JOB, "--reason", "the totals are off", "--probation-batches", "1")


@contextmanager
def remote_house(root: Path, checkpoints: str) -> Iterator[Remote]:
    """A job that serves, its table full."""
    house = Remote(root, checkpoints)
    try:
        house.add(("a", 1), ("b", 2))
        house.deploy()
        house.settle()
        yield house
    finally:
        house.close()


def live_a_life(house: Remote) -> None:
    """Resume, snapshot, rebuild, rollback, a checkpoint that is deleted under a killed driver and restored, prune: the
    table holds every row once, and nothing is made of the URL on the disk."""
    house.add(("a", 3))
    house.settle()
    assert house.take() == "s0001"
    assert house.next("resume", trigger="300 milliseconds") == (Way.RESUME, "v0001")
    house.add(("b", 4), ("c", 5))
    house.settle()
    assert house.next("rebuild", trigger="200 milliseconds", strategy=Strategy.REBUILD) == (Way.REBUILD, "v0002")
    house.add(("c", 6))
    house.settle()

    house.roll_back()
    house.add(("d", 7))
    house.settle()
    assert house.take() > "s0001"
    house.add(("d", 8))
    house.settle()

    lost = house.checkpoint
    house.kill()
    assert house.look().cause is Cause.DRIVER_KILLED
    assert lost.delete(lost.fresh().look().files) == {}
    lost.drop_empty_folders()
    assert house.look().cause is Cause.CHECKPOINT_LOST
    house.recover("restored", RecoveryAction.RESTORE, accepted_by="ada", accept_loss=True)
    house.add(("e", 9))
    house.settle()
    assert house.checkpoint.name > lost.name
    assert house.look().cause is Cause.NOTHING_WRONG
    for words in (["offsets", str(house.checkpoint)], ["fsck", str(house.checkpoint)], ["prune", JOB], ["jobs"]):
        house.must(*words)
    assert house.serves()
    assert open_batch(house.checkpoint) is None
    assert not (house.root / "cp").exists()
    assert not [name for name in os.listdir(Path.cwd()) if name.endswith(":")]


def told_at_dry_run(root: Path, checkpoints: str, changed: dict[str, str]) -> str:
    """What a dry run of a first deploy says, by its environment; it is refused, and leaves nothing."""
    own = {"HOME": str(root / "home"), "CHECKPOINTS": checkpoints, "JOBS": str(ROOT / "jobs")}
    words = ["deploy", JOB, "--dry-run", "--params", '{"input": "/in", "warehouse": "sqlite:////w.db"}']
    run = subprocess.run(
        [sys.executable, "-m", "streamkeeper.cli.main", *words, "--reason", "to see"],
        env=os.environ | {f"STREAMKEEPER_{name}": value for name, value in own.items()} | changed,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode != 0, run.stdout
    assert "Traceback" not in run.stdout + run.stderr
    assert not (root / "home" / "store" / "registry").exists()
    return " ".join((run.stdout + run.stderr).split())
