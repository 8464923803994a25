"""The process above a driver: ``python -m streamkeeper.runners.supervisor <job> <instance> <driver command…>``.

It claims each generation in the store before it starts that driver, copies the driver's output without secrets, ends
what is left of a generation before the next, and writes how the instance ended. An instance has one supervisor in its
life: a second one finds the first one's claim, living or dead, and ends at once. So a death that was proven stays true.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from streamkeeper.crash_points import crash_point
from streamkeeper.errors import KeyExists, StoreUnavailable, StreamkeeperError
from streamkeeper.model.control import SECRETS, DriverExit, DriverState, ExitCode, LaunchSpec, ProcessRecord
from streamkeeper.model.settings import read_settings
from streamkeeper.registry.control import Control
from streamkeeper.runners import process_tree
from streamkeeper.runners.driver_log import DriverLog, log_path
from streamkeeper.runners.driver_process import DriverProcess, Signals, adopt_orphans
from streamkeeper.runners.machine import this_machine
from streamkeeper.runners.process_tree import Root
from streamkeeper.runners.restarts import Decision, Next, decide
from streamkeeper.stores.opening import open_store

T = TypeVar("T")

_STORE_PAUSE_S = 0.5
_OUTAGE_LOOK_S = 2.0
_LONGEST_OUTAGE_S = 86_400.0


class Superseded(Exception):
    """Another supervisor has the instance, or it has ended already."""


class Supervisor:
    """Runs the generations of one instance, one after the other."""

    def __init__(self, control: Control, spec: LaunchSpec, command: Sequence[str], log: DriverLog) -> None:
        self._control = control
        self._spec = spec
        self._command = [*command, spec.job, spec.instance]
        self._log = log
        self._signals = Signals()
        self._root = _own_root()
        self._mark = process_tree.mark(
            spec.job,
            spec.instance,
            installation=os.environ.get(process_tree.INSTALLATION, ""),
            store=os.environ.get(process_tree.STORE, ""),
        )
        self._failures: tuple[float, ...] = ()

    def run(self) -> DriverExit:
        """Until the instance has ended; raises Superseded, and StoreUnavailable when a claim cannot be written."""
        generation = 0
        while True:
            generation += 1
            self._claim(generation)
            code, error = self._run_generation(generation)
            if number := self._signals.received():
                return self._exit(DriverState.FAILED, code, f"terminated by signal {number}")
            decision = decide(code, self._failures, now=time.monotonic(), budget=self._spec.restart_budget)
            self._log.say(f"generation {generation}: {decision.reason}")
            if decision.next is Next.END:
                return self._exit(decision.state, code, self._last_error(generation, decision, error))
            if code == ExitCode.STORE_LOST:
                self._await_store()
            else:
                self._failures = (*self._failures, time.monotonic())
            self._signals.sleep(decision.pause_s)
            if number := self._signals.received():
                return self._exit(DriverState.FAILED, code, f"terminated by signal {number}")

    def _await_store(self) -> None:
        """Until the store answers, a signal comes, or an outage is longer than anybody would wait out."""
        deadline = time.monotonic() + _LONGEST_OUTAGE_S
        while not self._signals.received() and time.monotonic() < deadline:
            try:
                self._control.processes()
            except StoreUnavailable:
                self._signals.sleep(_OUTAGE_LOOK_S)
                continue
            return

    def _claim(self, generation: int) -> None:
        machine = this_machine()
        record = ProcessRecord(
            instance=self._spec.instance,
            generation=generation,
            machine=machine.text,
            host=machine.host,
            pid=self._root.pid,
            started=self._root.started,
            installation=self._mark.installation,
        )
        crash_point("supervisor.claim.before")
        try:
            self._stored(lambda: self._control.write_process(record))
        except KeyExists as error:
            # A write whose answer was lost may have been ours.
            if record not in self._stored(self._control.processes):
                raise Superseded(f"generation {generation} is another process's") from error
        crash_point("supervisor.claim.after")

    def _run_generation(self, generation: int) -> tuple[int, str]:
        """Exit code, and an error of the start itself."""
        environ = {**os.environ, process_tree.GENERATION: str(generation)}
        try:
            driver = DriverProcess([*self._command, str(generation)], environ, self._log)
        except StreamkeeperError as error:
            return 127, str(error)
        self._log.say(f"generation {generation}: driver has pid {driver.pid}")
        crash_point("supervisor.started")
        code = driver.wait(self._signals)
        crash_point("supervisor.driver-ended")
        driver.end_tree(self._mark, self._root)
        return (-self._signals.received() if code is None else code), ""

    def _last_error(self, generation: int, decision: Decision, error: str) -> str:
        if decision.state is not DriverState.FAILED:
            return ""
        if error:
            return error
        try:
            status = self._stored(self._control.read_status)
        except StreamkeeperError:
            status = None
        told = status.error if status is not None and status.generation == generation else ""
        return f"{decision.reason}: {told or self._log.last_line or 'it printed nothing'}"

    def _exit(self, state: DriverState, code: int, error: str) -> DriverExit:
        end = DriverExit(instance=self._spec.instance, state=state, code=code, error=error)
        self._log.say(f"the instance has ended {state.value}" + (f": {error}" if error else ""))
        crash_point("supervisor.exit.before")
        try:
            self._stored(lambda: self._control.write_exit(end))
        except (KeyExists, StreamkeeperError) as error_:
            self._log.say(f"its end could not be written: {error_}")
        crash_point("supervisor.exit.after")
        return end

    def _stored(self, call: Callable[[], T]) -> T:
        """A store call, repeated while the store is out of reach, for the lease's life at most."""
        deadline = time.monotonic() + self._spec.lease_s
        while True:
            try:
                return call()
            except StoreUnavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_STORE_PAUSE_S)


def _own_root() -> Root:
    mine = process_tree.read_process(os.getpid())
    assert mine is not None
    return Root(pid=mine.pid, started=mine.started)


def supervise(job: str, instance: str, command: Sequence[str]) -> None:
    """Run an instance to its end; raises StreamkeeperError or Superseded when it is not ours to run."""
    settings = read_settings(os.environ)
    control = Control(open_store(settings.store), job, instance)
    spec = control.read_launch()
    if spec is None:
        raise StreamkeeperError(f"{job}/{instance} was never launched", hint="its launch.json is missing")
    if control.read_exit() is not None:
        raise Superseded("it has ended before")
    secrets: dict[str, str] = json.loads(os.environ.get(SECRETS) or "{}")
    Supervisor(control, spec, command, DriverLog(log_path(settings.home, job, instance), secrets)).run()


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 when the instance was run to its end, 1 when it was not ours to run."""
    job, instance, *command = arguments
    if os.getsid(0) != os.getpid():
        os.setsid()
    adopt_orphans()
    try:
        supervise(job, instance, command)
    except Superseded as reason:
        sys.stderr.write(f"supervisor of {job}/{instance} ends: {reason}\n")
        return 1
    except StreamkeeperError as error:
        sys.stderr.write(f"supervisor of {job}/{instance} failed: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    ending = main(sys.argv[1:])
    sys.stderr.flush()
    # Whoever waits for this process's end need not wait for the interpreter to clean up.
    os._exit(ending)
