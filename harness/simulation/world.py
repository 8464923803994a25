"""One job on two machines: its releases, processes, input and output, and the rules that are checked all the time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from types import MappingProxyType
from typing import Any

import msgspec

from harness.simulation import file_output
from harness.simulation.cluster import NODES
from harness.simulation.clusters import cluster_of, runner_of
from harness.simulation.coverage import Covered
from harness.simulation.file_log import IncompleteLog
from harness.simulation.input import InputFiles, Topic, told
from harness.simulation.patches import in_place
from harness.simulation.plan import OutputKind
from harness.simulation.process_table import Processes
from harness.simulation.processes import run_driver, run_supervisor
from harness.simulation.releases import JOB, QUERY, manifest, release
from harness.simulation.rules import Rules
from harness.simulation.scheduler import Process, Scheduler, Violation
from harness.simulation.sink import Output, SimulatedFunction, SimulatedTable
from harness.simulation.storages import CHECKPOINTS, ROOT, Storages
from harness.simulation.store import URL, Disk, SimulatedStore
from streamkeeper.checkpoints.claims import FOLDER
from streamkeeper.checkpoints.layout import last_committed, last_planned, read_offsets
from streamkeeper.checkpoints.log_codec import metadata_content
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import RegistryDamaged, StreamkeeperError
from streamkeeper.model.protocol.driver_messages import LOCAL, LaunchSpec, ProcessRecord
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_keys import journal_prefix
from streamkeeper.model.records.journal_records import Record, ReleaseRegistered
from streamkeeper.model.settings.settings import Settings
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.journal import Journal
from streamkeeper.sinks.contract import Sink
from streamkeeper.sinks.file import FileSink

_DAMAGED = ("offsets", "commits", "sources/0", "state/0/0")
_NOTHING: Mapping[str, str] = MappingProxyType({})
_SINKS: dict[OutputKind, Callable[[World], Sink]] = {
    OutputKind.TABLE: lambda world: SimulatedTable(world),
    OutputKind.FILES: lambda _: FileSink(file_output.PLACE),
    OutputKind.FUNCTION: lambda world: SimulatedFunction(world),
}


class World:
    """A simulated installation with its job."""

    def __init__(
        self, scheduler: Scheduler, *, output: OutputKind, files: bool, cleaner: bool, stateful: bool, drivers: str
    ) -> None:
        """Create the world. ``files``: whether the input is a directory of files, instead of a topic. ``cleaner``:
        whether Spark deletes the files of committed batches. ``stateful``: whether the query keeps state. ``drivers``:
        where drivers run: LOCAL, on the machines of their callers; KUBERNETES or YARN.
        """
        self.scheduler, self.kind, self.stateful = scheduler, output, stateful
        self.settings = Settings(
            store=URL,
            checkpoints=CHECKPOINTS[drivers],
            jobs=f"{ROOT}/jobs",
            home=f"{ROOT}/home",
            drivers=drivers,
        )
        self.cluster = cluster_of(self, drivers)
        self._storages = Storages(scheduler, lambda: self.lost / 2)
        self.files = self._storages.files
        self.disk, self.output = Disk(), Output()
        self.input = InputFiles(scheduler, every_s=2.0, cleaner=cleaner) if files else Topic(scheduler, every_s=2.0)
        self.sink: Sink = _SINKS[output](self)
        self.boots = {name: f"-:{name}-0:4026531836:0" for name in ("m1", "m2", *(NODES if drivers != LOCAL else ()))}
        self.lost = 0.0
        """The share of calls to the store that fail."""
        self.unseen = 0.0
        """The share of observations that see nothing."""
        self.slow_until_s = 0.0
        """Until when a write to the output takes long."""
        self.swapped = False
        """Whether the store was ever replaced by a copy."""
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
        alike, opaque = (manifest(self.sink, self.input.source, code, stateful=stateful) for code in "ab")
        self.manifests = {"r0001": {QUERY: alike}, "r0002": {QUERY: alike}, "r0003": {QUERY: opaque}}

    @classmethod
    @contextmanager
    def opened(
        cls,
        seed: int,
        *,
        output: OutputKind = OutputKind.TABLE,
        files: bool = False,
        cleaner: bool = False,
        stateful: bool = False,
        drivers: str = LOCAL,
    ) -> Iterator[World]:
        """Yield a world with three registered releases, in which no process runs yet."""
        scheduler = Scheduler(seed)
        world = cls(scheduler, output=output, files=files, cleaner=cleaner, stateful=stateful, drivers=drivers)
        with in_place(world):
            try:
                for number in (1, 2, 3):
                    world.record(ReleaseRegistered(release=release(number)))
                yield world
            finally:
                scheduler.close()

    def _created(self, key: str, value: bytes) -> None:
        if key.startswith(journal_prefix(JOB)):
            self.rules.entry(key, value)

    # Access for the simulated processes

    def store_of(self, process: Process | None) -> SimulatedStore:
        """Return a process's access to the store."""
        return SimulatedStore(
            self.disk, self.scheduler, process, lost=lambda: self.lost if process is not None else 0.0
        )

    def store_of_current(self) -> SimulatedStore:
        """Return the current process's access to the store."""
        current = self.scheduler.current
        return self.store_of(current.process if current is not None else None)

    def site_of(self, process: Process) -> Installation:
        """Return the installation as a process sees it."""
        store = self.store_of(process)
        return Installation(settings=self.settings, store=store, runner=runner_of(self, store))

    def crash_point(self, name: str) -> None:
        """Pass a failpoint of the real code, which is a seam of the simulation."""
        if self.scheduler.current is not None and not self.scheduler.elsewhere:
            self.covered.points.add(name)
            if name == "driver.batch.before":
                self.rules.admitted()
            elif name == "driver.batch.written":
                self.rules.left()
            self.scheduler.seam()

    def next_pid(self) -> int:
        """Return a process id that was never used before."""
        self._pids += 1
        return self._pids

    @property
    def here(self) -> str:
        """Return the machine of the current process."""
        current = self.scheduler.current
        return current.process.machine if current is not None else "m1"

    def start_supervisor(
        self, job: str, instance: str, *, machine: str = "", environ: Mapping[str, str] = _NOTHING, after_s: float = 0.0
    ) -> Process:
        """Start a supervisor, the process above a driver. ``machine``: where it starts, by default on the current
        process's machine; ``environ``: the variables that its cluster adds to its environment.
        """
        process = Process(instance, machine or self.here, environ=environ)
        self.supervisors.setdefault(instance, []).append(process)
        name = f"{instance} supervisor"
        self.scheduler.start(process, name, lambda: run_supervisor(self, process, job, instance), after_s=after_s)
        return process

    def start_driver(self, supervisor: Process, spec: LaunchSpec, claim: ProcessRecord) -> Process:
        """Start the driver of a claimed generation."""
        process = Process(
            f"{spec.instance}/{claim.generation}", supervisor.machine, parent=supervisor, dies_with_parent=True
        )
        supervisor.children.append(process)
        self.scheduler.start(process, process.name, lambda: run_driver(self, process, spec, claim))
        return process

    def living(self, instance: str, machine: str) -> list[Process]:
        """Return the living processes of an instance on a machine, its supervisor first."""
        found = [process for root in self.supervisors.get(instance, ()) for process in root.tree()]
        return [process for process in found if process.alive and process.machine == machine]

    def processes(self) -> list[Process]:
        """Return all living processes of drivers and supervisors."""
        roots = [root for started in self.supervisors.values() for root in started]
        return [each for root in roots for each in root.tree() if each.alive]

    def tree_at(self, location: str, *, lasting: bool = True, private: bool = True) -> Tree:
        """Return the in-memory tree at a location. Its files have no modes, so ``private`` has no effect."""
        del private
        return self._storages.tree_at(location, lasting=lasting)

    def is_running(self, instance: str) -> bool:
        """Return whether any process of an instance is alive."""
        return any(self.living(instance, machine) for machine in self.boots)

    def open_checkpoint(self, tree: Tree) -> str:
        """Return the query's id in a checkpoint; like Spark, create the metadata file if it is missing."""
        path = f"{tree.spark_path}/metadata"
        if (found := self.files.get(path)) is not None:
            return str(msgspec.json.decode(found[0])["id"])
        identity = str(uuid.UUID(int=self.scheduler.chance.getrandbits(128)))
        self.files.create(path, metadata_content(identity))
        return identity

    # What is recorded and seen from outside

    def record(self, record: Record) -> None:
        """Append an entry to the job's journal."""
        Journal(self.store_of(None), JOB, writer="test").append(lambda _: record)

    @property
    def state(self) -> JobState:
        """Return the job's state as the journal records it."""
        return Journal(self.store_of(None), JOB, writer="test").state()

    def take_time(self) -> None:
        """Wait until the output is no longer slow, as a write to it does."""
        left = self.slow_until_s - self.scheduler.now_s
        if left > 0:
            self.scheduler.sleep(left)

    def current_checkpoint(self) -> str:
        """Return the directory of the current checkpoint version; empty if there is none, or if the journal has a
        gap.
        """
        current = None if self.rules.gap else self.state.current_version(QUERY)
        return f"{self.settings.checkpoints}/{JOB}/{QUERY}/{current.version}" if current is not None else ""

    def rows_committed(self) -> Sequence[int]:
        """Return the rows up to the newest committed batch of the current checkpoint version; no rows if it is
        damaged.
        """
        if not (root := self.current_checkpoint()):
            return ()
        try:
            batch = last_committed(tree := self.tree_at(root).fresh())
            return self.rows_to(tree, batch) if batch is not None else ()
        except (IncompleteLog, StreamkeeperError):
            return ()

    def lacks_records(self) -> bool:
        """Return whether the topic lacks the next record of the current checkpoint version, because the record was
        dropped, or because the topic was recreated and is still shorter.
        """
        if self.input.begin:
            current = None if self.rules.gap else self.state.current_version(QUERY)
            return current is not None and self.offset_of(current.version) > self.input.end() - self.input.begin
        rows = self.rows_committed()
        return self.input.first > (rows[-1] + 1 if rows else 0)

    def rows_to(self, tree: Tree, batch: int) -> Sequence[int]:
        """Return the rows up to a planned batch of a checkpoint."""
        reader = self.input.reader(tree, lambda *_: None)
        (end,) = read_offsets(tree, batch).ends.values()
        return reader.rows_to(reader.position(end))

    def offset_of(self, version: str) -> int:
        """Return the offset after the last planned batch of a checkpoint version, or of the version that it continues;
        0 if there is no such batch, or if the plan is damaged. Only for a topic.
        """
        tree = self.tree_at(f"{self.settings.checkpoints}/{JOB}/{QUERY}/{version}").fresh()
        batch = last_planned(tree)
        if batch is None:
            known = self.rules.state.version(QUERY, version)
            return self.offset_of(known.parent) if known is not None and known.parent else 0
        try:
            (end,) = read_offsets(tree, batch).ends.values()
        except StreamkeeperError:
            return 0
        return self.input.reader(tree, lambda *_: None).position(end)

    def boot(self, machine: str) -> None:
        """Restart a machine, which kills every driver there."""
        self.boots[machine] = f"-:{machine}-{self.scheduler.now_s:.0f}:4026531836:0"
        for each in self.processes():
            if each.machine == machine:
                self.scheduler.kill(each, -9)

    def suspend(self, seconds: float) -> None:
        """Let the time pass without a step of any actor."""
        self.scheduler.now_s += seconds
        self.input.gap_s += seconds

    def put_back(self, copy: dict[str, bytes]) -> None:
        """Replace the store by a copy."""
        self.swapped = True
        self.disk.put_back(copy)
        try:
            self.rules.reset(self.state)
        except RegistryDamaged:
            # The copy was made after an earlier copy had left a gap.
            self.rules.gap = True

    def copy_checkpoints(self) -> dict[str, bytes]:
        """Return path -> content of all checkpoints, without the claims that are stored beside them."""
        found = self.files.below(self.settings.checkpoints)
        return {path: content for path, (content, _) in found.items() if f"/{FOLDER}/" not in path}

    def put_back_checkpoints(self, copy: dict[str, bytes]) -> None:
        """Replace the files of all checkpoints by those of a copy."""
        self.rules.replaced = True
        for path in self.copy_checkpoints():
            self.files.remove(f"{self.settings.checkpoints}/{path}")
        for path, content in copy.items():
            self.files.create(f"{self.settings.checkpoints}/{path}", content)

    def copy_output(self) -> Any:
        """Return a copy of the output, for ``put_back_output``."""
        if self.kind is OutputKind.FILES:
            return {path: content for path, (content, _) in self.files.below(file_output.PLACE).items()}
        return deepcopy(self.output)

    def put_back_output(self, copy: Any) -> None:
        """Replace the output by a copy; None: delete the output."""
        if self.kind is OutputKind.FILES:
            self.files.clear(file_output.PLACE)
            for path, content in (copy or {}).items():
                self.files.create(f"{file_output.PLACE}/{path}", content)
        else:
            self.output = deepcopy(copy) if copy is not None else Output()

    def damage(self, which: float) -> str:
        """Damage the current checkpoint and return what was done; empty without a checkpoint. ``which``: from 0 to 1,
        selects the damage.
        """
        root = self.current_checkpoint()
        if not root:
            return ""
        self.rules.replaced = True
        tree = self.tree_at(root).fresh()
        newest = {folder: max(tree.files(folder), key=_number, default="") for folder in _DAMAGED}
        paths = [f"{folder}/{name}" for folder, name in newest.items() if name]
        chosen = int(which * (2 * len(paths) + 1))
        if chosen == 2 * len(paths):
            self.files.clear(root)
            return f"{root} is deleted"
        path = f"{root}/{paths[chosen // 2]}"
        self.files.remove(path)
        if chosen % 2:
            self.files.create(path, b"v")
        return f"{path} is {'cut short' if chosen % 2 else 'deleted'}"

    # What is compared

    def check_shown(self) -> None:
        """Check what readers of files see: each row once, and every row before the last. A table is checked at every
        write instead.
        """
        if self.kind is not OutputKind.FILES:
            return
        seen = self._files_seen()
        if seen is None:
            self.scheduler.break_rule("a batch is committed, and the output cannot be read")
        elif len(seen) > len(set(seen)) or (self.rules.no_gaps and self.input.gaps(set(seen))):
            self.scheduler.break_rule(f"a batch is committed, and readers see {told(sorted(seen))}")

    def _files_seen(self) -> list[int] | None:
        """Return the rows that readers of files see; None if the files cannot be read."""
        try:
            with self.scheduler.in_no_time():
                return file_output.rows_seen(file_output.PLACE)
        except (IncompleteLog, StreamkeeperError):
            return None

    def rows_seen(self) -> Container[int]:
        """Return the rows that readers of the output see."""
        if self.kind is OutputKind.FILES:
            return set(self._files_seen() or ())
        return {row for row, batches in self.output.batches.items() if batches}

    def is_complete(self) -> bool:
        """Return whether readers see every row that has arrived."""
        return not self._missing()

    def _missing(self) -> list[int]:
        seen = self.rows_seen()
        exempt = set(self.input.gone)
        if isinstance(self.input, InputFiles):
            exempt |= self.input.old | (set() if self.rules.no_gaps else self.input.removed)
        elif begin := self.input.begin:
            # An output that a fall-back has put in place again ends earlier, and nothing can add these rows.
            last = next(filter(seen.__contains__, range(begin - 1, -1, -1)), begin)
            exempt |= set(range(last + 1, begin))
        return [row for row in range(self.input.end()) if row not in seen and row not in exempt]

    def check_complete(self) -> None:
        """Check that readers see every row that has arrived, and none twice; raises Violation."""
        missing = self._missing()
        self.check_shown()
        if missing:
            raise Violation(f"{len(missing)} of {self.input.end()} rows were not written, such as {missing[0]}")
        if self.scheduler.broken:
            raise Violation(self.scheduler.broken)


def _number(name: str) -> int:
    """Return the number in a file's name."""
    return int("".join(filter(str.isdigit, name)) or -1)
