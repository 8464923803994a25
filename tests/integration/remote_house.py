"""Provides test installations whose checkpoints and tasks may be on remote systems, and the sequence of lifecycle
operations that the tests run on them.
"""

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
SINK_OF_ROWS = 'TableSink(params["warehouse"], table="sales_rows", key=["event_id"])'
"""The sink of the job ``sales_rows``."""
_EVERY_SALE = '''"""Write every sale once."""

from streamkeeper import {kind}, Param, Query, streaming_job


@streaming_job(
    name="sales_totals",
    params={{
        "input": Param(str, help="directory in which the sales files arrive"),
        "warehouse": Param(str, help="the output"),
        "trigger": Param(str, default="1 second", help="an interval"),
    }},
)
def sales_totals(spark, params):
    """Write every sale unchanged, and drop repeated ones."""
    sales = spark.readStream.schema("event_id string, customer string, amount long").csv(params["input"])
    yield Query("totals", sales.dropDuplicates(["event_id"]), sink={sink}, trigger=params["trigger"])
'''
_NAME_OF_ITS_OWN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Remote(House):
    """A test installation with configurable checkpoint storage and a second, stateless job, ``sales_rows``."""

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
        """The URL of the database that contains the output tables."""
        return f"sqlite:///{self.warehouse}"

    def read(self, query: str) -> list[tuple[Any, ...]]:
        """Run the query on that database and return its rows."""
        with sqlite3.connect(self.warehouse, timeout=30) as connection:
            return connection.execute(query).fetchall()

    def totals(self) -> dict[str, tuple[int, int]]:
        return {row[0]: row[1:] for row in self.read("SELECT customer, sales, total FROM sales_totals")}

    def move(self, checkpoints: str) -> None:
        """Make new checkpoint versions go to a different location from now on."""
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
        """Deploy the job and return the transition that it took and the checkpoint version that is current afterwards;
        ``more`` are further fields of the request.
        """
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
        """Run a command and require that it succeeds."""
        done = self.command(*words)
        assert done.returncode == 0, done.stdout + done.stderr

    def roll_back(self) -> None:
        """Roll back to the previous release."""
        self.must("rollback", JOB, "--reason", "the totals are off", "--probation-batches", "0")


class Served(Remote):
    """A test installation whose output tables are in PostgreSQL."""

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
    """A test installation whose drivers run on YARN or Kubernetes; its store and its input are on a disk that every
    node has.
    """

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
    """A test installation whose executors run on a cluster."""

    conf: ClassVar[dict[str, str]] = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    # Executors that were killed are started again, with their Python workers.
    patience_s = 300.0

    def __init__(self, root: Path, checkpoints: str, master: str, server: str) -> None:
        super().__init__(root, checkpoints, server, master=master)


class Stamped(Spread):
    """A test installation with one job whose code needs a module that is only in the archive of the executors'
    environment.
    """

    jobs = ("stamped_rows",)

    @property
    def job_files(self) -> Path:
        return ROOT / "tests/integration/jobs"

    @property
    def _archive(self) -> Path:
        return self.root / "environment.tar.gz"

    def pack(self, word: str) -> None:
        """Pack a minimal environment: this Python, and a module whose constant is the word."""
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
        """Wait for the rows of an input file, and return the words that the table has for them."""

        def find() -> list[str]:
            return [word for (word,) in self.read(f"SELECT word FROM stamped_rows WHERE event_id LIKE '{file}e%'")]

        wait_for(f"the rows of {file}", find, self.patience_s)
        return find()


@contextmanager
def opened(house: Remote) -> Iterator[Remote]:
    """Yield the installation with a running job and a filled table, and close it at the end."""
    try:
        house.add(("a", 1), ("b", 2))
        house.deploy()
        house.settle()
        yield house
    finally:
        house.close()


def write_every_sale(folder: Path, sink: str) -> None:
    """Replace the main job by one with state that writes every sale once. ``sink``: the expression of its sink."""
    (folder / f"{JOB}.py").write_text(_EVERY_SALE.format(kind=_kind_of(sink), sink=sink))


def replace_sink(file: Path, before: str, after: str) -> None:
    """Give a job another sink, unless it already has it. ``before`` and ``after``: the expressions of both sinks."""
    source = file.read_text()
    assert before in source or after in source
    kinds = [f"Query, {_kind_of(sink)}, streaming_job" for sink in (before, after)]
    file.write_text(source.replace(before, after).replace(*kinds))


def _kind_of(sink: str) -> str:
    return sink.partition("(")[0]


def live_a_life(house: Remote) -> None:
    """Run a snapshot, a resume, a rebuild, a rollback, the restore of a checkpoint that was deleted under a killed
    driver, and a prune, and check that the table contains every row exactly once.
    """
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
    """Stop the main job and hand off the stateless job; check that its table contains every row exactly once."""
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
    """Return whether the table of the stateless job contains every row exactly once."""
    expected = sorted((event, customer, int(amount)) for event, customer, amount in read_rows(house.input))
    return sorted(house.read("SELECT event_id, customer, amount FROM sales_rows")) == expected


def outlive_executors(house: Remote, cluster: SparkCluster) -> None:
    """Kill the executors, then freeze them until a new driver has taken over, and check that every row is present once
    and that no state file has a name that a different attempt would also use.
    """
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
    """Return the state files whose names two attempts at the same batch would share; ``_metadata`` files are written by
    the driver alone and are excluded.
    """
    state = [path for path in checkpoint.fresh().look().files if path.startswith("state/") and "_metadata/" not in path]
    assert state
    return [path for path in state if not _NAME_OF_ITS_OWN.search(path)]


def told_at_dry_run(root: Path, checkpoints: str, changed: dict[str, str]) -> str:
    """Return what a dry run of a first deploy prints in the given environment, after checking that it is refused and
    records nothing.
    """
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
