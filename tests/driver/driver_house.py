"""A test environment for real driver processes: store, bundle, journal, input files, and the processes themselves."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from harness.waiting import wait_for
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.protocol.driver_messages import (
    CommandKind,
    DriverState,
    DriverStatus,
    Gather,
    LaunchMode,
    LaunchSpec,
)
from streamkeeper.model.protocol.restart_budgets import RestartPolicy
from streamkeeper.model.records.journal_records import (
    CheckpointVersionCreated,
    InstanceAppointed,
    InstancePlanned,
    Role,
    ShadowAppointed,
)
from streamkeeper.registry.bundles import build_bundle
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.journal import Journal
from streamkeeper.registry.objects import put_object
from streamkeeper.stores.store_urls import open_store

ROOT = Path(__file__).resolve().parents[2]
START_S = 300.0


def standby_spec(instance: str, release: str) -> LaunchSpec:
    """Return the launch spec of a standby of the job ``sales`` for tests without a process."""
    return LaunchSpec(
        instance=instance,
        job="sales",
        release=release,
        mode=LaunchMode.STANDBY,
        bundle="",
        entry="",
        params={},
        conf={},
        checkpoints="",
    )


class DriverHouse:
    """One job with its drivers; ``add`` writes sales files into ``input``."""

    def __init__(self, root: Path, job: str = "sales_totals", jobs_root: Path = ROOT / "jobs") -> None:
        self.operation = "op"
        self.root = root
        self.job = job
        self.jobs_root = jobs_root
        self.input = root / "input"
        self.input.mkdir(parents=True)
        self.store_directory = root / "store"
        self.store = open_store(str(self.store_directory))
        self.journal = Journal(self.store, job, writer="test")
        self.warehouse = root / "warehouse.db"
        self.output = root / "output"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.program: list[str] = ["-m", "streamkeeper.driver"]
        self.files = 0
        self.expected: dict[str, list[int]] = {}

    def params(self) -> dict[str, ParamValue]:
        """Return the params of the two bundled jobs."""
        if self.job == "event_copy":
            return {"input": str(self.input), "output": str(self.output), "trigger": "500 milliseconds"}
        return {"input": str(self.input), "warehouse": f"sqlite:///{self.warehouse}", "trigger": "500 milliseconds"}

    def add(self, rows: list[tuple[str, int]]) -> None:
        """Write one input file of (customer, amount) rows and move it into place atomically."""
        self.files += 1
        draft = self.root / f"draft-{self.files}"
        kind = ",sale" if self.job == "event_copy" else ""
        lines = [f"f{self.files}e{number},{name}{kind},{amount}\n" for number, (name, amount) in enumerate(rows)]
        draft.write_text("".join(lines))
        for name, amount in rows:
            self.expected.setdefault(name, []).append(amount)
        os.rename(draft, self.input / f"f{self.files:06d}.csv")

    def totals(self, table: str = "sales_totals") -> dict[str, tuple[int, int, int]]:
        """Return the contents of the table: customer -> count, sum, sum of squares."""
        if table not in self.tables():
            return {}
        with sqlite3.connect(self.warehouse, timeout=30) as connection:
            rows = connection.execute(f"SELECT customer, sales, total, squares FROM {table}").fetchall()
        return {row[0]: row[1:] for row in rows}

    def tables(self) -> set[str]:
        """Return the names of the warehouse's tables."""
        if not self.warehouse.exists():
            return set()
        with sqlite3.connect(self.warehouse, timeout=30) as connection:
            return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def oracle(self) -> dict[str, tuple[int, int, int]]:
        """Return the totals that the table must hold, computed from the input alone."""
        return {name: (len(each), sum(each), sum(one * one for one in each)) for name, each in self.expected.items()}

    def control(self, instance: str) -> Control:
        return Control(self.store, self.job, instance)

    def launch(
        self,
        instance: str,
        *,
        mode: LaunchMode = LaunchMode.STANDBY,
        params: Mapping[str, ParamValue] | None = None,
        conf: Mapping[str, str] | None = None,
        lease_s: float = 60.0,
        rehearse_on: Mapping[str, str] | None = None,
        expected_manifests: Mapping[str, str] | None = None,
        gather: Gather | None = None,
        secrets: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        restarts: RestartPolicy | None = None,
        installation: str = "",
    ) -> subprocess.Popen[bytes]:
        """Store the bundle and the launch of an instance, and start its generation 1."""
        bundle = build_bundle(self.jobs_root, self.job)
        put_object(self.store, self.job, "bundles", bundle.data, ".zip")
        spec = LaunchSpec(
            instance=instance,
            job=self.job,
            release="r0001",
            mode=mode,
            bundle=bundle.sha256,
            entry=bundle.entry,
            params=dict(self.params() if params is None else params),
            conf={"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1", **(conf or {})},
            checkpoints=str(self.root / "checkpoints"),
            rehearse_on=dict(rehearse_on or {}),
            expected_manifests=dict(expected_manifests or {}),
            gather=gather,
            lease_s=lease_s,
            restarts=restarts or RestartPolicy(),
            installation=installation,
        )
        assert self.control(instance).write_launch(spec)
        self.journal.append(
            lambda _: InstancePlanned(operation=self.operation, instance=instance, release="r0001", role=Role.CANDIDATE)
        )
        return self.start(instance, 1, secrets=secrets, environ=environ)

    def start(
        self,
        instance: str,
        generation: int,
        *,
        secrets: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start one generation of a launched instance."""
        log = (self.root / f"{instance}-{generation}.log").open("wb")
        process = subprocess.Popen(
            [sys.executable, *self.program, self.job, instance, str(generation)],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.root),
                "PYTHONPATH": str(ROOT / "plugins"),
                "STREAMKEEPER_HOME": str(self.root / "home"),
                "STREAMKEEPER_STORE": str(self.store_directory),
                "STREAMKEEPER_SECRETS": json.dumps(dict(secrets or {})),
                **{name: os.environ[name] for name in ("JAVA_HOME", "JDK_JAVA_OPTIONS") if name in os.environ},
                **(environ or {}),
            },
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        log.close()
        self.processes.append(process)
        return process

    def appoint(self, instance: str, versions: Mapping[str, str] | None = None) -> None:
        """Appoint an instance in the journal, as an operation does, but without a proof that its predecessor is
        dead.
        """
        given = dict(versions or {})
        self.journal.append(lambda _: InstanceAppointed(operation=self.operation, instance=instance, versions=given))

    def create(self, query: str, version: str, *, parent: str = "", serves: bool = True, operation: str = "") -> None:
        """Record the creation of a checkpoint version."""
        created = CheckpointVersionCreated(
            query=query,
            version=version,
            release="r0001",
            origin="test",
            state_format="rocksdb",
            parent=parent,
            serves=serves,
            operation=operation,
        )
        self.journal.append(lambda _: created)

    def switch(self, instance: str, process: subprocess.Popen[bytes], versions: Mapping[str, str]) -> None:
        """Appoint an instance in these versions, and send it ``go``."""
        self.appoint(instance, versions)
        self.send(instance, process, CommandKind.GO, versions=versions)

    def shadow(self, instance: str, process: subprocess.Popen[bytes], query: str, version: str) -> None:
        """Make an instance fill a new version as a shadow."""
        self.create(query, version, serves=False)
        self.journal.append(lambda _: ShadowAppointed(operation=self.operation, instance=instance))
        self.send(instance, process, CommandKind.SHADOW, versions={query: version})

    def checkpoint(self, query: str, version: str) -> Path:
        return self.root / "checkpoints" / self.job / query / version

    def go(
        self,
        instance: str,
        process: subprocess.Popen[bytes],
        *queries: str,
        other_topics: dict[str, dict[str, str]] | None = None,
    ) -> None:
        """Appoint an instance, send it ``go`` for v0001, and nudge it."""
        for query in queries:
            first = CheckpointVersionCreated(
                query=query, version="v0001", release="r0001", origin="new", state_format="rocksdb"
            )
            self.journal.append(
                lambda state, query=query, first=first: None if state.versions.get(query) else first  # type: ignore[misc]
            )
        self.appoint(instance)
        versions = dict.fromkeys(queries, "v0001")
        self.send(instance, process, CommandKind.GO, versions=versions, other_topics=other_topics)

    def send(
        self,
        instance: str,
        process: subprocess.Popen[bytes],
        kind: CommandKind,
        versions: Mapping[str, str] | None = None,
        *,
        may_differ: Mapping[str, tuple[str, ...]] | None = None,
        other_topics: dict[str, dict[str, str]] | None = None,
    ) -> None:
        self.control(instance).send(kind, self.operation, versions, may_differ=may_differ, other_topics=other_topics)
        process.send_signal(signal.SIGUSR1)

    def status(self, instance: str) -> DriverStatus | None:
        return self.control(instance).read_status()

    def wait_state(self, instance: str, state: DriverState, timeout_s: float = START_S) -> DriverStatus:
        """Wait until an instance has reached a state; fails at once if the driver reports an error."""

        def there() -> bool:
            status = self.status(instance)
            if status is not None and status.error and status.state is not state:
                raise AssertionError(f"{status.state}: {status.error}")
            return status is not None and status.state is state

        wait_for(f"{instance} to be {state.value}", there, timeout_s)
        status = self.status(instance)
        assert status is not None
        return status

    def wait_exit(self, process: subprocess.Popen[bytes], timeout_s: float = 60.0) -> int:
        return process.wait(timeout=timeout_s)

    def close(self) -> None:
        """Kill every process that was started here, with its children."""
        for process in self.processes:
            if process.poll() is None:
                tree = psutil.Process(process.pid).children(recursive=True)
                for each in [*tree, psutil.Process(process.pid)]:
                    try:
                        each.send_signal(signal.SIGCONT)
                        each.kill()
                    except psutil.NoSuchProcess:
                        continue
                process.wait(timeout=30)
