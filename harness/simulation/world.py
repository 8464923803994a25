"""One job on two machines: its releases, processes, topic and output, and the rules that are checked all the time."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from harness.simulation.coverage import Covered
from harness.simulation.patches import in_place
from harness.simulation.process_table import Processes
from harness.simulation.processes import run_driver, run_supervisor
from harness.simulation.rules import Rules
from harness.simulation.runner import SimulatedRunner
from harness.simulation.scheduler import Process, Scheduler, Violation
from harness.simulation.sink import Output, SimulatedFunction, SimulatedTable
from harness.simulation.store import URL, Disk, SimulatedStore
from harness.simulation.trees import Files, SimulatedTree
from streamkeeper.checkpoints.claims import FOLDER
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.log_codec import metadata_content
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.locations import local_path
from streamkeeper.model.control import LaunchSpec
from streamkeeper.model.job_state import JobState
from streamkeeper.model.journal import Record, ReleaseRegistered
from streamkeeper.model.journal_keys import journal_prefix
from streamkeeper.model.manifest import Manifest, Source, StateColumn
from streamkeeper.model.release import Environment, Release, ReleaseContent
from streamkeeper.model.settings import Settings
from streamkeeper.operations.installation import Installation
from streamkeeper.registry.journal import Journal
from streamkeeper.sinks.contract import Sink
from streamkeeper.snapshots.catalogue import Catalogue, list_series
from streamkeeper.snapshots.restore import restore
from streamkeeper.snapshots.verify import verify

JOB, QUERY = "sales", "totals"
ROOT = "/simulated"
"""Above every path; the real disk has no such folder."""
_ENVIRONMENT = Environment(python="3.11", spark="4.2.0", packages_sha256="p", jars_sha256="j", digest="d")


class Topic:
    """Rows arrive one by one; a row is the number of its arrival."""

    def __init__(self, scheduler: Scheduler, *, every_s: float) -> None:
        self._scheduler, self._every_s = scheduler, every_s
        self.until_s = float("inf")
        self.most_rows = 7
        """How many rows a batch takes at most."""
        self.gap_s = 0.0
        """How long nothing arrived, because the machines stood still."""

    def close(self) -> None:
        """Let no more rows arrive."""
        self.until_s = self._scheduler.now_s

    def end(self) -> int:
        """How many rows have arrived."""
        return int((min(self._scheduler.now_s, self.until_s) - self.gap_s) / self._every_s)


class World:
    """The simulated installation with its job."""

    def __init__(self, scheduler: Scheduler, *, fenced: bool) -> None:
        """``fenced``: whether the output has a fence."""
        self.scheduler, self.fenced = scheduler, fenced
        self.settings = Settings(store=URL, checkpoints=f"{ROOT}/checkpoints", jobs=f"{ROOT}/jobs", home=f"{ROOT}/home")
        self.files = Files(lambda: int(1e9 * scheduler.unix()))
        self._trees: dict[str, SimulatedTree] = {}
        self.disk, self.output = Disk(), Output()
        self.topic = Topic(scheduler, every_s=2.0)
        self.sink: Sink = SimulatedTable(self) if fenced else SimulatedFunction(self)
        self.boots = {"m1": "-:m1-0:4026531836:0", "m2": "-:m2-0:4026531836:0"}
        self.lost = 0.0
        """The share of calls to the store that fail."""
        self.unseen = 0.0
        """The share of observations that see nothing."""
        self.slow_until_s = 0.0
        """Until when a write to the output takes long."""
        self.drifts = 0
        """How many unknown changes the check finds by now, besides those of the releases."""
        self.supervisors: dict[str, list[Process]] = {}
        """Instance -> the processes that were started above its drivers."""
        self.rules = Rules(self, JOB)
        self.disk.on_create = self._created
        self.disk.on_replace, self.disk.on_drop = self.rules.held, self.rules.removed
        self.covered = Covered()
        self._pids = 100
        self.table = Processes(self)
        alike, opaque = _manifest(self.sink, "a"), _manifest(self.sink, "b")
        self.manifests = {"r0001": {QUERY: alike}, "r0002": {QUERY: alike}, "r0003": {QUERY: opaque}}

    @classmethod
    @contextmanager
    def opened(cls, seed: int, *, fenced: bool = True) -> Iterator[World]:
        """Yield a world with three registered releases, in which nothing runs yet."""
        scheduler = Scheduler(seed)
        world = cls(scheduler, fenced=fenced)
        with in_place(world):
            try:
                for number in (1, 2, 3):
                    world.record(ReleaseRegistered(release=_release(number)))
                yield world
            finally:
                scheduler.close()

    def _created(self, key: str, value: bytes) -> None:
        if key.startswith(journal_prefix(JOB)):
            self.rules.entry(key, value)

    # Access for the simulated processes

    def store_of(self, process: Process | None) -> SimulatedStore:
        """A process's access to the store."""
        return SimulatedStore(
            self.disk, self.scheduler, process, lost=lambda: self.lost if process is not None else 0.0
        )

    def store_of_current(self) -> SimulatedStore:
        """The access of the process that runs now."""
        current = self.scheduler.current
        return self.store_of(current.process if current is not None else None)

    def site_of(self, process: Process) -> Installation:
        """The installation as a process sees it."""
        store = self.store_of(process)
        return Installation(settings=self.settings, store=store, runner=SimulatedRunner(self, store))

    def crash_point(self, name: str) -> None:
        """A failpoint of the real code is a seam."""
        if not self.scheduler.elsewhere and self.scheduler.current is not None:
            self.covered.points.add(name)
            if name == "driver.batch.before":
                self.rules.admitted()
            elif name == "driver.batch.written":
                self.rules.left()
            self.scheduler.seam()

    def next_pid(self) -> int:
        """A process id that was not used before."""
        self._pids += 1
        return self._pids

    @property
    def here(self) -> str:
        """The machine of the process that runs now."""
        current = self.scheduler.current
        return current.process.machine if current is not None else "m1"

    def start_supervisor(self, spec: LaunchSpec) -> None:
        """Start the process above a driver, on the machine of the process that runs now."""
        process = Process(f"{spec.instance}", self.here)
        self.supervisors.setdefault(spec.instance, []).append(process)

        self.scheduler.start(
            process,
            f"{spec.instance} supervisor",
            lambda: run_supervisor(self, process, spec.job, spec.instance),
            after_s=self.scheduler.random.random(),
        )

    def start_driver(self, supervisor: Process, spec: LaunchSpec, generation: int) -> Process:
        """Start a generation of a driver."""
        process = Process(f"{spec.instance}/{generation}", supervisor.machine, parent=supervisor, dies_with_parent=True)
        supervisor.children.append(process)
        self.scheduler.start(process, process.name, lambda: run_driver(self, process, spec, generation))
        return process

    def living(self, instance: str, machine: str) -> list[Process]:
        """The living processes of an instance on a machine, its supervisor first."""
        found = [process for root in self.supervisors.get(instance, ()) for process in root.tree()]
        return [process for process in found if process.alive and process.machine == machine]

    def processes(self) -> list[Process]:
        """All living processes of drivers and supervisors."""
        roots = [root for started in self.supervisors.values() for root in started]
        return [each for root in roots for each in root.tree() if each.alive]

    def tree_at(self, location: str, *, lasting: bool = True) -> Tree:
        """The tree at a location, in memory."""
        found = self._trees.get(location)
        if found is None:
            root = local_path("checkpoint", location)
            found = SimulatedTree(self.files, root, lasting=lasting, seam=self.scheduler.seam)
            self._trees[location] = found
        return found

    def is_running(self, instance: str) -> bool:
        """Whether any process of an instance lives."""
        return any(self.living(instance, machine) for machine in self.boots)

    def open_checkpoint(self, tree: Tree) -> str:
        """Return the query's id in a checkpoint; Spark creates the file if it is missing."""
        path = f"{tree.spark_path}/metadata"
        if (found := self.files.get(path)) is not None:
            return str(msgspec.json.decode(found[0])["id"])
        identity = str(uuid.UUID(int=self.scheduler.random.getrandbits(128)))
        self.files.create(path, metadata_content(identity))
        return identity

    # What is recorded and seen from outside

    def record(self, record: Record) -> None:
        """Append an entry to the job's journal."""
        Journal(self.store_of(None), JOB, writer="test").append(lambda _: record)

    @property
    def state(self) -> JobState:
        """The job's state as recorded."""
        return Journal(self.store_of(None), JOB, writer="test").state()

    def take_time(self) -> None:
        """A write takes long while the output is slow."""
        left = self.slow_until_s - self.scheduler.now_s
        if left > 0:
            self.scheduler.sleep(left)

    def suspend(self, seconds: float) -> None:
        """Let the time pass without any step."""
        self.scheduler.now_s += seconds
        self.topic.gap_s += seconds

    def put_back(self, copy: dict[str, bytes]) -> None:
        """Replace the store by a copy."""
        self.disk.put_back(copy)
        self.rules.reset(self.state)

    def copy_checkpoints(self) -> dict[str, bytes]:
        """Return path -> content of all checkpoints, without the claims beside them."""
        found = self.files.below(self.settings.checkpoints)
        return {path: content for path, (content, _) in found.items() if f"/{FOLDER}/" not in path}

    def put_back_checkpoints(self, copy: dict[str, bytes]) -> None:
        """Replace the files of all checkpoints by those of a copy."""
        for path in self.copy_checkpoints():
            self.files.remove(f"{self.settings.checkpoints}/{path}")
        for path, content in copy.items():
            self.files.create(f"{self.settings.checkpoints}/{path}", content)

    # What is compared at the end

    def is_complete(self) -> bool:
        """Whether every row that has arrived was written."""
        return all(self.output.batches.get(row) for row in range(self.topic.end()))

    def check_complete(self) -> None:
        """Every row that has arrived was written."""
        missing = [row for row in range(self.topic.end()) if not self.output.batches.get(row)]
        if missing:
            raise Violation(f"{len(missing)} of {self.topic.end()} rows were not written, such as {missing[0]}")

    def check_snapshots(self) -> None:
        """Every snapshot in a series can be restored."""
        store = self.store_of(None)
        for series in list_series(store):
            catalogue = Catalogue(store, series)
            if damaged := verify(catalogue).damaged:
                raise Violation(f"{series} has damaged objects: {damaged}")
            for snapshot in catalogue.snapshots():
                target = self.tree_at(f"{self.settings.checkpoints}-restored/{series}/{snapshot.name}")
                restored = restore(catalogue, snapshot, target)
                if (batch := last_committed(target.fresh())) != snapshot.batch:
                    raise Violation(f"{snapshot.name} of batch {snapshot.batch} restores batch {batch}: {restored}")


def _manifest(sink: Sink, code: str) -> Manifest:
    """Return the manifest of a query without state, whose keys a Python function with the digest ``code`` computes."""
    source = Source(kind="kafka", location="events", options={"subscribe": "events"}, limits={}, schema="x bigint")
    return Manifest(
        query=QUERY,
        spark_version="4.2.0",
        sources=(source,),
        watermarks=(),
        operators=(),
        plan="~Project [x#0L]\n+- StreamingRelation Kafka, [x#0L]\nstructure 1",
        output_schema="x bigint",
        output_mode="append",
        trigger="5 seconds",
        sink=sink.describe(),
        confs={"spark.sql.shuffle.partitions": "2"},
        functions={"above/0 key": code},
        columns=(StateColumn(meaning="key(source 0.x)", type="bigint", name="k", functions=("above/0 key",)),),
        output_shape=("source 0",),
    )


def _release(number: int) -> Release:
    content = ReleaseContent(
        bundle=f"{number}" * 64, bundle_bytes=1, entry="sales.py", params={}, conf={}, environment=_ENVIRONMENT,
        state_format="",
    )  # fmt: skip
    return Release(job=JOB, number=number, content=content)
