"""Jobs whose checkpoints may lie elsewhere, and whose tasks may run elsewhere: a house, and the life that is lived."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import psycopg

from harness.ledger import read_rows
from harness.spark_cluster import SparkCluster
from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import open_batch
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.transitions import Transition
from streamkeeper.model.requests.diagnosis import Problem, RecoveryAction
from streamkeeper.model.requests.request import DeployRequest, Strategy
from streamkeeper.model.runner_kinds.yarn_kind import YARN
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.jobs.installation import Installation
from tests.integration.test_recovery import JOB, QUERY, ROOT, House

ROWS, ROWS_QUERY = "sales_rows", "rows"
_NAME_OF_ITS_OWN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Remote(House):
    """A house with its checkpoints somewhere else, and a second job, ``sales_rows``, which has no state."""

    jobs = (JOB, ROWS)
    conf: ClassVar[dict[str, str]] = {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"}

    @property
    def job_files(self) -> Path:
        folder = self.root / "jobs"
        if not folder.exists():
            folder.mkdir()
            for file in (ROOT / "jobs" / f"{JOB}.py", ROOT / "tests/integration/jobs" / f"{ROWS}.py"):
                shutil.copy(file, folder)
        return folder

    @property
    def database(self) -> str:
        """The URL of the one that its tables are in."""
        return f"sqlite:///{self.warehouse}"

    def read(self, query: str) -> list[tuple[Any, ...]]:
        """What a reader of that database finds."""
        with sqlite3.connect(self.warehouse, timeout=30) as connection:
            return connection.execute(query).fetchall()

    def totals(self) -> dict[str, tuple[int, int]]:
        return {row[0]: row[1:] for row in self.read("SELECT customer, sales, total FROM sales_totals")}

    def move(self, checkpoints: str) -> None:
        """From now on new checkpoint versions lie elsewhere."""
        settings, store = (
            msgspec.structs.replace(self.installation.settings, checkpoints=checkpoints),
            self.installation.store,
        )
        self.installation = Installation.of(settings, store, {})

    def deploy(self) -> None:
        assert self.next("first", trigger="200 milliseconds") == (Transition.START, "v0001")

    def next(
        self, operation: str, *, trigger: str, job: str = JOB, query: str = QUERY, **more: Any
    ) -> tuple[Transition, str]:
        """Deploy again: the way it went, and the checkpoint version that serves then; ``more``: of the request."""
        params: dict[str, ParamValue] = {"input": str(self.input), "warehouse": self.database, "trigger": trigger}
        request = DeployRequest(
            job=job,
            params=params,
            conf=self.conf,
            requested_by="ada",
            probation_batches=0,
            first_commit_s=120.0,
            probation_s=120.0,
            **more,
        )
        deploy = Deploy.open(self.installation, operation, request)
        done = deploy.run()
        assert done.outcome is Outcome.SUCCEEDED, done.sentence
        serving = deploy.state.current_version(query)
        assert serving is not None
        return deploy.state.operations[operation].transitions[query].way, serving.version

    def must(self, *words: str) -> None:
        """What somebody types, and what must end well."""
        done = self.command(*words)
        assert done.returncode == 0, done.stdout + done.stderr

    def roll_back(self) -> None:
        """To the release before."""
        self.must("rollback", JOB, "--reason", "the totals are off", "--probation-batches", "0")


class Served(Remote):
    """A house whose tables are in PostgreSQL."""

    def __init__(self, root: Path, checkpoints: str, server: str, *, master: str = "") -> None:
        super().__init__(root, checkpoints, master=master)
        self._server = server

    @property
    def database(self) -> str:
        return self._server.replace("postgresql://", "postgresql+psycopg://")

    def read(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._server) as connection:
            return connection.execute(query).fetchall()


class Contained(Served):
    """A house whose drivers are YARN's or Kubernetes'; its store and its input are on a disk that every node has."""

    # A killed driver is proven dead once its node has had the time to end what is left of it.
    patience_s = 300.0

    def __init__(
        self,
        root: Path,
        checkpoints: str,
        server: str,
        *,
        drivers: str = YARN,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(root, checkpoints, server)
        settings = msgspec.structs.replace(
            self.installation.settings, drivers=drivers, runner_variables=dict(variables or {})
        )
        self.installation = Installation.of(settings, self.installation.store, {})


class Spread(Served):
    """A house whose executors are a cluster's."""

    conf: ClassVar[dict[str, str]] = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    # Executors that were killed are started again, with their Python workers.
    patience_s = 300.0

    def __init__(self, root: Path, checkpoints: str, master: str, server: str) -> None:
        super().__init__(root, checkpoints, server, master=master)


class Stamped(Spread):
    """One job whose code needs a module that is in the archive of the executors' environment alone."""

    jobs = ("stamped_rows",)

    @property
    def job_files(self) -> Path:
        return ROOT / "tests/integration/jobs"

    @property
    def _archive(self) -> Path:
        return self.root / "environment.tar.gz"

    def pack(self, word: str) -> None:
        """An environment as small as can be: this Python, and a module beside it that says the word."""
        folder = self.root / f"environment-{word}"
        (folder / "bin").mkdir(parents=True)
        (folder / "lib").mkdir()
        (folder / "lib/only_on_executors.py").write_text(f"WORD = {word!r}\n")
        python = folder / "bin/python"
        python.write_text(f"""#!/bin/sh
PYTHONPATH="$(cd "$(dirname "$0")/../lib" && pwd):$PYTHONPATH" exec {sys.executable} "$@"
""")
        python.chmod(0o755)
        shutil.make_archive(str(self._archive).removesuffix(".tar.gz"), "gztar", folder)
        settings = msgspec.structs.replace(self.installation.settings, executor_environment=str(self._archive))
        store = self.installation.store
        self.installation = Installation.of(settings, store, {})

    def release(self, operation: str) -> None:
        self.next(operation, trigger="200 milliseconds", job=self.jobs[0], query="rows")

    def words_of(self, file: str) -> list[str]:
        """What the table says of the rows of an input file, once they are there."""

        def find() -> list[str]:
            return [word for (word,) in self.read(f"SELECT word FROM stamped_rows WHERE event_id LIKE '{file}e%'")]

        wait_for(f"the rows of {file}", find, self.patience_s)
        return find()


@contextmanager
def opened(house: Remote) -> Iterator[Remote]:
    """The house with a job that serves, its table full; closed at the end."""
    try:
        house.add(("a", 1), ("b", 2))
        house.deploy()
        house.settle()
        yield house
    finally:
        house.close()


def live_a_life(house: Remote) -> None:
    """Snapshot, resume, rebuild, rollback, a checkpoint that is deleted under a killed driver and restored, and prune:
    the table holds every row once."""
    house.add(("a", 3))
    house.settle()
    first = house.take()
    assert house.next("resume", trigger="300 milliseconds") == (Transition.RESUME, "v0001")
    house.add(("b", 4), ("c", 5))
    house.settle()
    assert house.next("rebuild", trigger="200 milliseconds", strategy=Strategy.REBUILD) == (Transition.REBUILD, "v0002")
    house.add(("c", 6))
    house.settle()

    house.roll_back()
    house.add(("d", 7))
    house.settle()
    assert house.take() > first
    house.add(("d", 8))
    house.settle()

    lost = house.checkpoint
    house.kill()
    assert house.look().cause is Problem.DRIVER_KILLED
    assert lost.delete(lost.fresh().look().files) == {}
    lost.drop_empty_folders()
    assert house.look().cause is Problem.CHECKPOINT_LOST
    house.recover("restored", RecoveryAction.RESTORE, accepted_by="ada", accept_loss=True)
    house.add(("e", 9))
    house.settle()
    assert house.checkpoint.name > lost.name
    assert house.look().cause is Problem.NOTHING_WRONG
    for words in (["offsets", str(house.checkpoint)], ["fsck", str(house.checkpoint)], ["prune", JOB], ["jobs"]):
        house.must(*words)
    assert house.serves()
    assert open_batch(house.checkpoint) is None


def hand_off(house: Remote) -> None:
    """Stop the job, and hand off the one that has no state: its table holds every row once."""
    # A cluster has no room for drivers of both jobs and a standby.
    house.must("stop", JOB, "--reason", "its room is wanted")
    deploy = partial(house.next, job=ROWS, query=ROWS_QUERY)
    assert deploy("rows", trigger="200 milliseconds") == (Transition.START, "v0001")
    wait_for("the rows", partial(has_all_rows, house))
    handed = deploy("handoff", trigger="300 milliseconds", strategy=Strategy.HANDOFF)
    assert handed == (Transition.HANDOFF, "v0002")
    house.add(("f", 10))
    wait_for("the rows after the handoff", partial(has_all_rows, house))


def has_all_rows(house: Remote) -> bool:
    """Whether the table of the job without state holds every row once."""
    expected = sorted((event, customer, int(amount)) for event, customer, amount in read_rows(house.input))
    return sorted(house.read("SELECT event_id, customer, amount FROM sales_rows")) == expected


def outlive_executors(house: Remote, cluster: SparkCluster) -> None:
    """They are killed, then frozen until another driver has taken over from theirs: every row is there once, and no
    state file has a name that another attempt would give it."""
    assert cluster.strike("kill") > 0
    house.add(("a", 3))
    house.settle()
    assert cluster.strike("suspend") > 0
    try:
        house.add(("c", 4))
        house.kill()
        assert house.look().cause is Problem.DRIVER_KILLED
        house.recover("again", RecoveryAction.RESTART)
        house.settle()
    finally:
        cluster.strike("resume")
    house.add(("c", 5))
    house.settle()
    assert shared_names(house.checkpoint) == []


def shared_names(checkpoint: Tree) -> list[str]:
    """State files that another attempt at the same batch would name alike; the driver writes what describes them."""
    state = [path for path in checkpoint.fresh().look().files if path.startswith("state/") and "_metadata/" not in path]
    assert state
    return [path for path in state if not _NAME_OF_ITS_OWN.search(path)]


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
