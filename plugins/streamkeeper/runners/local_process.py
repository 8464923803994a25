"""Runs drivers as detached process trees on this machine, and proves that a driver has terminated.

DEAD requires two facts. First, every supervisor that ever claimed the instance belonged to this boot and pid namespace
and has terminated: its pid is free, or belongs to a process with another start time. Second, two scans of /proc find no
process of its session or with its mark. Frozen processes count as alive; zombies do not. Checking only the recorded pid
would miss a JVM.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from streamkeeper.errors import InvalidInput, KeyExists, StreamkeeperError, TemporaryError
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.protocol.driver_messages import SECRETS, LaunchSpec, ProcessRecord, control_key
from streamkeeper.model.records.installation_record import InstallationRecord
from streamkeeper.model.settings.settings import Settings
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners import process_tree
from streamkeeper.runners.barred_instances import FORMER, NEVER_STARTED, bar, is_barred
from streamkeeper.runners.contract import Life, Liveness, Runner
from streamkeeper.runners.machine import Machine, Sight, this_machine
from streamkeeper.runners.process_tree import Mark, Process, ProcessTable, Root
from streamkeeper.runners.variables import (
    DRIVER,
    PACKAGES,
    choose_driver,
    driver_variables,
    named_master,
    supervisor_command,
)
from streamkeeper.stores.contract import Store
from streamkeeper.system.crash_points import crash_point
from streamkeeper.system.java import check_java
from streamkeeper.system.masters import check_master
from streamkeeper.system.private_files import make_folders, opener


class Launcher(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that was about to start a supervisor, as recorded in
    ``control/<job>/<instance>/launchers/<hash>.json``.
    """

    format: int = 1
    """The record's format."""
    machine: str
    """The machine."""
    host: str
    """Its host name."""
    installation: str = ""
    """The installation's id, empty if unknown."""


@dataclass(frozen=True, slots=True)
class _Claims:
    """The store's records about the processes of one instance."""

    mark: Mark
    """The mark of its processes."""
    recorded: list[ProcessRecord]
    """The claims of its generations."""
    launched: bool
    """Whether a start was requested."""
    launchers: list[Launcher]
    """The machines that were about to start it, if no process claimed it."""


class LocalProcessRunner(Runner):
    """Runs the drivers of an installation as process trees on this machine."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        driver: Sequence[str] = DRIVER,
        machine: Machine | None = None,
        environ: Mapping[str, str] | None = None,
        installation: InstallationRecord | None = None,
        resolve_master: Callable[[str], str] | None = None,
    ) -> None:
        """``store``: the store.
        ``settings``: the installation's settings.
        ``driver``: the command that gets job, instance and generation.
        ``machine``: this machine, by default detected.
        ``environ``: variables, some of which are passed on.
        ``installation``: the installation's record; None skips the ownership check.
        ``resolve_master``: resolves a master that is an Airflow connection.
        """
        self._store = store
        self._settings = settings
        self._driver = tuple(driver)
        self._machine = machine
        self._environ = os.environ if environ is None else environ
        self._installation = installation
        self._resolve_master = resolve_master

    def check_place(self, references: Collection[str] = (), conf: Mapping[str, str] | None = None) -> None:
        """Implement ``Runner.check_place``; checks Java on this machine, and that the master answers."""
        del references, conf  # whoever starts them has resolved them
        check_java(self._environ)
        if master := named_master(self._settings, self._resolve_master):
            check_master(master)

    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        """Implement ``Runner.launch``; returns when the supervisor's process exists, before its claim is stored."""
        control = Control(self._store, spec.job, spec.instance)
        crash_point("launch.spec.before")
        control.write_launch(spec)
        crash_point("launch.spec.after")
        if control.processes() or process_tree.find_tree(self._mark(spec.job, spec.instance)):
            return
        self._write_launcher(spec.job, spec.instance)
        crash_point("launch.process.before")
        self._start(spec, secrets)
        crash_point("launch.process.after")

    def observe(self, job: str, instance: str) -> Liveness:
        """Implement ``Runner.observe``; a living process tree is found without the store."""
        if found := process_tree.find_tree(self._mark(job, instance)):
            return self._seen(found)
        return self._judge(self._read_claims(job, instance), ProcessTable())

    def observe_many(self, instances: Collection[tuple[str, str]]) -> dict[tuple[str, str], Liveness]:
        """Implement ``Runner.observe_many``.

        Terminations are proven as reliably as by ``observe``: a first scan of the machine finds living instances. For
        all others, the records are read, and then a second scan is made.
        """
        before = ProcessTable()
        seen: dict[tuple[str, str], Liveness] = {}
        for pair in instances:
            if found := before.find(self._mark(*pair)):
                seen[pair] = self._seen(found)
        claims: dict[tuple[str, str], _Claims] = {}
        for job, instance in instances:
            if (job, instance) not in seen:
                try:
                    claims[job, instance] = self._read_claims(job, instance)
                except StreamkeeperError as error:
                    seen[job, instance] = Liveness(
                        life=Life.UNKNOWN, why=f"the instance's records cannot be read: {error}"
                    )
        after = ProcessTable() if claims else before
        return seen | {pair: self._judge(read, after) for pair, read in claims.items()}

    def _read_claims(self, job: str, instance: str) -> _Claims:
        """Read the store's records about an instance's processes. For an instance without a claim, they include the
        machines that were about to start it.
        """
        control = Control(self._store, job, instance)
        recorded = control.processes()
        launched = bool(recorded) or control.read_launch() is not None
        launchers = self._launchers(job, instance) if launched and not recorded else []
        return _Claims(self._mark(job, instance), recorded, launched, launchers)

    def _judge(self, claims: _Claims, table: ProcessTable) -> Liveness:
        """Return what the claims prove, together with a scan that was made after they were read."""
        if not claims.recorded:
            return self._judge_unclaimed(claims, table)
        records = [claim for claim in claims.recorded if self._is_mine(claim.installation)]
        if not records:
            return Liveness(life=Life.DEAD, why=f"the instance never ran here: {FORMER}")
        if is_barred(records):
            return Liveness(life=Life.DEAD, why=NEVER_STARTED)
        sights = [self._here().look_at(record.machine, record.host) for record in records]
        seen_from_here = zip(records, sights, strict=True)
        blind = next(((why, record.host) for record, (sight, why) in seen_from_here if sight is Sight.ELSEWHERE), None)
        roots = [_root(record) for record, (sight, _) in zip(records, sights, strict=True) if sight is Sight.HERE]
        if found := table.find(claims.mark, roots):
            return self._seen(found)
        if blind is not None:
            return Liveness(life=Life.UNKNOWN, why=blind[0], elsewhere=blind[1])
        return Liveness(life=Life.DEAD, why=_proof(records, sights), rebooted=sights[-1][0] is Sight.OVER)

    def notify(self, job: str, instance: str) -> None:
        """Send SIGUSR1 to a driver process that has a handler for it; the driver's JVM and supervisor get no signal."""
        found = process_tree.find_tree(self._mark(job, instance))
        supervisors = {process.pid for process in found if process_tree.generation_of(process.pid) is None}
        drivers = [process for process in found if process.parent in supervisors and process.pid not in supervisors]
        for driver in drivers:
            if process_tree.catches(driver.pid, signal.SIGUSR1):
                process_tree.send(driver, signal.SIGUSR1)

    def kill(self, job: str, instance: str) -> None:
        """Implement ``Runner.kill``.

        Afterwards an instance that was launched and not yet claimed can no longer be claimed.
        """
        marked = self._mark(job, instance)
        control = Control(self._store, job, instance)
        recorded = control.processes()
        records = [record for record in recorded if self._is_mine(record.installation)]
        if not recorded and control.read_launch() is not None:
            records = bar(control, instance, self._here(), self._mark(job, instance).installation)
        roots = [
            _root(record) for record in records if self._here().look_at(record.machine, record.host)[0] is Sight.HERE
        ]
        first = roots[0].pid if roots else 0
        process_tree.kill_tree(lambda: self._our_own(process_tree.find_tree(marked, roots)), first=first)

    def _seen(self, found: list[Process]) -> Liveness:
        own = self._our_own(found)
        if own:
            return _alive(own)
        place = self._settings.store_directory
        return Liveness(
            life=Life.UNKNOWN,
            why=f"process {found[0].pid} has another directory at {place}, so it belongs to a copy in a container",
        )

    def _our_own(self, found: list[Process]) -> list[Process]:
        """Return the processes, except those that see another directory at the store's path: they belong to a copy at
        the same path, which has the same marks.
        """
        directory = self._settings.store_directory
        if directory is None:
            return found
        return [process for process in found if not process_tree.finds_another(process.pid, directory)]

    def _mark(self, job: str, instance: str) -> Mark:
        installation = self._installation.id if self._installation is not None else ""
        return process_tree.mark(job, instance, installation=installation, store=self._settings.store)

    def _is_mine(self, recorded: str) -> bool:
        """Whether a process record belongs to this installation, and not to one from which it was copied."""
        return self._installation is None or self._installation.is_mine(recorded)

    def _here(self) -> Machine:
        return self._machine or this_machine()

    def _write_launcher(self, job: str, instance: str) -> None:
        here = self._here()
        name = hashlib.sha256(here.text.encode()).hexdigest()[:16]
        key = control_key(job, instance, "launchers", f"{name}.json")
        try:
            installation = self._mark(job, instance).installation
            self._store.create(key, to_json(Launcher(machine=here.text, host=here.host, installation=installation)))
        except KeyExists:
            return

    def _launchers(self, job: str, instance: str) -> list[Launcher]:
        keys = self._store.list(control_key(job, instance, "launchers", ""))
        found = [from_json(self._store.read(key), Launcher, where=key, newest_format=1) for key in keys]
        return [claim for claim in found if self._is_mine(claim.installation)]

    def _judge_unclaimed(self, claims: _Claims, table: ProcessTable) -> Liveness:
        if not claims.launched:
            return Liveness(life=Life.ABSENT, why="the instance was never launched")
        for launcher in claims.launchers:
            sight, why = self._here().look_at(launcher.machine, launcher.host)
            if sight is Sight.ELSEWHERE:
                reason = f"the instance was launched, but not seen since: {why}"
                return Liveness(life=Life.UNKNOWN, why=reason, elsewhere=launcher.host)
        if found := table.find(claims.mark):
            return self._seen(found)
        return Liveness(
            life=Life.ABSENT, why="the instance was launched, but no process has claimed it and none is starting"
        )

    def _start(self, spec: LaunchSpec, secrets: Mapping[str, str]) -> None:
        job, instance, driver = spec.job, spec.instance, choose_driver(self._driver, spec.python)
        if not os.access(driver[0], os.X_OK):
            raise InvalidInput(
                f"the driver's program {driver[0]} cannot be executed", hint="repair the environment of this program"
            )
        supervisor = supervisor_command(job, instance, driver)
        log = self._settings.log(job, instance)
        environ = self._child_environment(job, instance, secrets)
        if driver[0] != sys.executable and (PACKAGES / "pyspark").exists():
            # If packages are installed next to this one, the path would add them to an interpreter that has its own.
            del environ["PYTHONPATH"]
        try:
            make_folders(log.parent)
            with open(log, "ab", opener=opener) as output:
                # The shell exits at once, so the supervisor has no launcher as parent, and no launcher keeps a zombie.
                started = subprocess.Popen(
                    ["/bin/sh", "-c", '"$@" &', "sh", *supervisor],
                    env=environ,
                    cwd=self._settings.home,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
                code = started.wait(timeout=60)
        except (OSError, subprocess.SubprocessError) as error:
            raise TemporaryError(f"{job}/{instance} cannot be started: {error}", hint=f"see {log}") from error
        if code != 0:
            raise StreamkeeperError(f"{job}/{instance} cannot be started: /bin/sh ended with {code}", hint=f"see {log}")

    def _child_environment(self, job: str, instance: str, secrets: Mapping[str, str]) -> dict[str, str]:
        master = named_master(self._settings, self._resolve_master)
        return {
            **driver_variables(self._environ, replace(self._settings, master=master)),
            **self._mark(job, instance).variables(),
            SECRETS: json.dumps(dict(secrets)),
        }


def _alive(found: Sequence[Process]) -> Liveness:
    pids = ", ".join(f"{process.pid}{' (frozen)' if process.frozen else ''}" for process in found)
    return Liveness(
        life=Life.ALIVE,
        why=f"processes {pids}",
        frozen=any(process.frozen for process in found),
        # A stopped supervisor does not prevent a driver from finishing a batch.
        halted=any(process.halted and process_tree.generation_of(process.pid) is not None for process in found),
    )


def _root(record: ProcessRecord) -> Root:
    return Root(pid=record.pid, started=record.started)


def _proof(records: Sequence[ProcessRecord], sights: Sequence[tuple[Sight, str]]) -> str:
    newest, (sight, why) = records[-1], sights[-1]
    if sight is Sight.OVER:
        return f"{why}: supervisor {newest.pid} and all processes that it started ended with the previous boot"
    return (
        f"{why}: supervisor {newest.pid} (started at tick {newest.started}, generations 1 to {newest.generation}) has "
        "ended, and two scans of /proc found no process of its session or with its mark"
    )
