"""The process above a driver: ``python -m streamkeeper.runners.supervisor <job> <instance> <driver command…>``.

The supervisor claims each generation in the store before it starts that driver, and copies the driver's output without
secrets. It kills all processes of a generation before it starts the next, and records the instance's end. An instance
only ever has one supervisor: a second supervisor finds the first one's claim, even if the first has terminated, and
exits at once. Therefore a proven termination remains true.

Before a further generation the supervisor checks in the journal whether the instance should still run, because the job
may have been stopped, or another instance appointed, while the store was unreachable. While no driver runs, the status
states the reason for waiting.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Thread
from typing import TypeVar

import msgspec

from streamkeeper.errors import KeyExists, StoreUnavailable, StreamkeeperError
from streamkeeper.lifecycle.continuation import Continuation, may_go_on
from streamkeeper.model.coding import to_json
from streamkeeper.model.protocol.driver_messages import (
    CLAIM,
    TERMINATED,
    CommandKind,
    DriverExit,
    DriverState,
    DriverStatus,
    ExitCode,
    LaunchSpec,
    ProcessRecord,
    fault_of_code,
)
from streamkeeper.model.protocol.fault_kinds import Fault, read_fault
from streamkeeper.model.protocol.restart_budgets import Cause
from streamkeeper.model.secret_names import with_literals
from streamkeeper.model.settings.settings import read_settings
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.journal import Journal
from streamkeeper.runners import process_tree
from streamkeeper.runners.container import Container, container_of
from streamkeeper.runners.driver_log import DriverLog
from streamkeeper.runners.driver_process import DriverProcess, Signals, adopt_orphans
from streamkeeper.runners.machine import this_machine
from streamkeeper.runners.restarts import Next, RestartDecision, Spent, code_without_start, decide
from streamkeeper.stores.store_urls import open_store
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point

T = TypeVar("T")

_STORE_PAUSE_S = 0.5
_OUTAGE_LOOK_S = 2.0
_NO_MEMORY = "Linux killed the driver: its container or control group ran out of memory"
_KILLED_WITHIN_S = 10.0
"""The part of a pod's grace period that is reserved for killing the remaining processes and for the supervisor's final
record.
"""
_TELL_S = 5.0
"""How many seconds to try to write the reason for waiting. The time is limited because the reason may be that the store
is unreachable.
"""


class Superseded(Exception):
    """Raised if another supervisor has claimed the instance, or the instance has already ended."""


@dataclass(frozen=True, slots=True)
class _Word:
    """The error that terminated a generation, its kind of fault, and the query that raised it."""

    text: str
    fault: Fault = Fault.UNCLASSIFIED
    query: str = ""


class Supervisor:
    """Runs the generations of one instance, one after the other."""

    def __init__(
        self,
        control: Control,
        journal: Journal,
        spec: LaunchSpec,
        command: Sequence[str],
        log: DriverLog,
        container: Container | None = None,
    ) -> None:
        """``control``: the instance's records.
        ``journal``: the job's journal.
        ``spec``: the launch specification.
        ``command``: the driver's command, without job and instance.
        ``log``: the instance's log.
        ``container``: the container in which it runs; None on a machine.
        """
        self._control = control
        self._journal = journal
        self._spec = spec
        self._command = [*command, spec.job, spec.instance]
        self._log = log
        self._container = container or Container({})
        self._signals = Signals()
        self._root = process_tree.own_root()
        self._mark = process_tree.mark(
            spec.job,
            spec.instance,
            installation=os.environ.get(process_tree.INSTALLATION, ""),
            store=os.environ.get(process_tree.STORE, ""),
        )
        self._spent = Spent()
        self._claimed: ProcessRecord | None = None

    def run(self) -> DriverExit:
        """Run until the instance has ended; raises Superseded, and StoreUnavailable after a day without the store."""
        generation = 0
        while True:
            generation += 1
            self._claim(generation)
            began = clock.monotonic()
            code, error = self._run_generation(generation)
            if number := self._signals.received():
                in_order = ", between two batches" if code == ExitCode.DRAINED else ""
                return self._exit(DriverState.FAILED, code, _Word(f"{TERMINATED} {number}{in_order}"), signal=number)
            if reason_ended := self._container.why_gone():
                return self._exit(DriverState.FAILED, code, _Word(reason_ended))
            now = clock.monotonic()
            decision = decide(
                code,
                self._spent,
                now=now,
                ran_s=now - began,
                budget=self._spec.restart_budget,
                policy=self._spec.restarts,
            )
            self._spent = decision.spent
            self._log.write_line(f"generation {generation}: {decision.reason}")
            if decision.next is Next.END:
                last_error = self._last_error(generation, code, decision, error)
                return self._exit(decision.state, code, last_error, cause=decision.cause)
            self._tell(generation, code, decision, error)
            self._signals.sleep(decision.pause_s)
            verdict = self._await_leave()
            if number := self._signals.received():
                return self._exit(DriverState.FAILED, code, _Word(f"{TERMINATED} {number}"), signal=number)
            if not verdict.goes_on:
                failed = verdict.state is DriverState.FAILED
                self._log.write_line(verdict.reason)
                return self._exit(
                    verdict.state,
                    code,
                    _Word(verdict.reason if failed else ""),
                    cause=Cause.PERMANENT if failed else None,
                )

    def _await_leave(self) -> Continuation:
        """Return whether a further generation may start, once the store answers."""

        def ask() -> Continuation:
            orders = frozenset(command.kind for command in self._control.commands(0))
            return may_go_on(self._journal.state(), self._spec.instance, orders)

        try:
            return self._after_the_outage(ask)
        except StoreUnavailable:
            if not self._signals.received():
                raise
            return Continuation(goes_on=False)
        except StreamkeeperError as error:
            return Continuation(goes_on=False, reason=str(error), state=DriverState.FAILED)

    def _after_the_outage(self, call: Callable[[], T]) -> T:
        """Repeat a store call until it succeeds, for as long as a driver may wait for a dependency, or until a signal
        arrives.
        """
        return self._stored(call, patience_s=self._spec.restarts.dependency_limit_s, look_s=_OUTAGE_LOOK_S)

    def _tell(self, generation: int, code: int, decision: RestartDecision, error: str) -> None:
        """Write in the status that no driver runs, and why. No other process writes the status before the next
        generation.
        """
        try:
            status = self._stored(self._control.read_status, patience_s=_TELL_S)
            status = status or self._nothing_told(generation)
            word = self._last_word(status, generation, code, error)
            waiting = f"{decision.reason}: {word.text}" if word.text else decision.reason
            after = msgspec.structs.replace(
                status,
                state=DriverState.STARTING,
                generation=max(generation, status.generation),
                beat=status.beat + 1,
                at=clock.now().isoformat(),
                error=word.text,
                cause=decision.cause.value if decision.cause is not None else "",
                waiting=waiting,
                fault=word.fault.value,
                failed_query=word.query,
            )
            crash_point("supervisor.tell.before")
            self._stored(lambda: self._control.write_status(after), patience_s=_TELL_S)
        except StreamkeeperError as failed:
            self._log.write_line(f"the waiting status could not be written: {failed}")

    def _nothing_told(self, generation: int) -> DriverStatus:
        """Return the status of a driver that terminated before it wrote its first status."""
        instance, release = self._spec.instance, self._spec.release
        return DriverStatus(
            instance=instance, release=release, generation=generation, state=DriverState.STARTING, beat=0, at=""
        )

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
            container=self._container.id,
        )
        crash_point("supervisor.claim.before")
        try:
            self._after_the_outage(self._must_have_the_claim)
            self._after_the_outage(lambda: self._control.write_process(record))
        except KeyExists as error:
            # If the response was lost, the record may be our own.
            if record not in self._after_the_outage(self._control.processes):
                raise Superseded(f"another process runs generation {generation}") from error
        self._claimed = record
        crash_point("supervisor.claim.after")

    def _must_have_the_claim(self) -> None:
        """Raise Superseded if another process has claimed this supervisor's last generation, because an older copy of
        the store was put in place.
        """
        mine = self._claimed
        if mine is not None and self._control.read_process(mine.generation) not in (None, mine):
            raise Superseded(f"in the store, another process has claimed generation {mine.generation}")

    def _run_generation(self, generation: int) -> tuple[int, str]:
        """Run a driver. Return its exit code, and a text: why the driver could not be started, or why Linux killed it;
        otherwise empty.
        """
        claim = to_json(self._claimed).decode()
        environ = {**os.environ, process_tree.GENERATION: str(generation), CLAIM: claim}
        try:
            driver = DriverProcess([*self._command, str(generation)], environ, self._log)
        except StreamkeeperError as error:
            return code_without_start(error), str(error)
        self._log.write_line(f"generation {generation}: driver has pid {driver.pid}")
        crash_point("supervisor.started")
        code = driver.wait(self._signals)
        if code is None:
            code = self._ended_in_order(driver)
        crash_point("supervisor.driver-ended")
        killed = _NO_MEMORY if driver.kills.explain(code) else ""
        driver.end_tree(self._mark, self._root)
        return (-self._signals.received() if code is None else code), killed

    def _ended_in_order(self, driver: DriverProcess) -> int | None:
        """Give the driver time to stop between two batches, if its node allows that, and return its exit code. Return
        None if there is no time, or the driver has not stopped in time.
        """
        grace_s = self._container.grace_s - _KILLED_WITHIN_S
        if grace_s <= 0:
            return None
        self._log.write_line(
            f"signal {self._signals.received()}: the driver has {grace_s:g} s to end between two batches"
        )

        def tell() -> None:
            # A hanging store takes part of the driver's time, but does not block its output.
            with suppress(StreamkeeperError):
                self._control.send(CommandKind.DRAIN, f"signal-{self._signals.received()}")
                driver.notify()

        Thread(target=tell, name="drain", daemon=True).start()
        return driver.wait_at_most(self._signals.received_at + grace_s - clock.monotonic())

    def _last_error(self, generation: int, code: int, decision: RestartDecision, error: str) -> _Word:
        if decision.state is not DriverState.FAILED:
            return _Word("")
        try:
            status = self._stored(self._control.read_status)
        except StreamkeeperError:
            status = None
        word = self._last_word(status, generation, code, error)
        return (
            word if error else replace(word, text=f"{decision.reason}: {word.text or 'the driver printed no output'}")
        )

    def _last_word(self, status: DriverStatus | None, generation: int, code: int, error: str) -> _Word:
        """Return the error that terminated a generation: the error of its start, the error that its driver reported, or
        the last line of its log.
        """
        if error:
            return _Word(error, Fault.OUT_OF_MEMORY if code == -signal.SIGKILL else fault_of_code(code))
        if status is not None and status.generation == generation and status.error:
            fault = read_fault(status.fault) or fault_of_code(code)
            return _Word(status.error, fault, status.failed_query)
        return _Word(self._log.last_line, fault_of_code(code))

    def _exit(
        self, state: DriverState, code: int, word: _Word, *, cause: Cause | None = None, signal: int = 0
    ) -> DriverExit:
        """Record the instance's end.

        ``state``: the final state.
        ``code``: the last exit code.
        ``word``: the error.
        ``cause``: the kind of error, None for an intended end.
        ``signal``: the signal that ended the supervisor, 0 without one.
        """
        error = word.text
        end = DriverExit(
            instance=self._spec.instance,
            state=state,
            code=code,
            error=error,
            cause=cause.value if cause is not None else "",
            fault=word.fault.value if error else "",
            signal=signal,
            failed_query=word.query,
        )
        self._log.write_line(f"the instance has ended: {state.value}" + (f": {error}" if error else ""))
        crash_point("supervisor.exit.before")
        try:
            self._stored(self._must_have_the_claim)
            self._stored(lambda: self._control.write_exit(end))
        except (KeyExists, StreamkeeperError) as error_:
            self._log.write_line(f"the end could not be recorded: {error_}")
        crash_point("supervisor.exit.after")
        return end

    def _stored(self, call: Callable[[], T], *, patience_s: float = 0.0, look_s: float = _STORE_PAUSE_S) -> T:
        """Repeat a store call while the store is unreachable, for the duration of the lease or for ``patience_s``.

        A signal stops the repetition. Raises StoreUnavailable if the store is still unreachable then.
        """
        deadline = clock.monotonic() + (patience_s or self._spec.lease_s)
        while True:
            try:
                return call()
            except StoreUnavailable:
                if clock.monotonic() > deadline or self._signals.received():
                    raise
                self._signals.sleep(look_s)


def supervise(job: str, instance: str, command: Sequence[str]) -> None:
    """Run an instance until it has ended. Raises StreamkeeperError, or Superseded if another supervisor has claimed the
    instance or the instance has already ended.
    """
    container = container_of(os.environ)
    settings = read_settings(os.environ)
    store = open_store(settings.store)
    control, journal = Control(store, job, instance), Journal(store, job, writer=f"supervisor:{instance}", passing=True)
    spec = control.read_launch()
    if spec is None:
        raise StreamkeeperError(f"{job}/{instance} was never launched: its launch.json is missing")
    if control.read_exit() is not None:
        raise Superseded("the instance has already ended")
    secrets = container.secrets(spec)
    path = container.log_path(settings.log(job, instance))
    log = DriverLog(path, with_literals(secrets, spec.params, spec.conf), job=job, instance=instance)
    with container.reporting(log.write_line):
        Supervisor(control, journal, spec, command, log, container).run()


def main(arguments: Sequence[str]) -> int:
    """Run the supervisor. Return 0 if the instance was run until it ended, and 1 if it could not be run here."""
    job, instance, *command = arguments
    if os.getsid(0) != os.getpid() and not container_of(os.environ).keeps_session:
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
    # Processes that wait for this one's end need not wait for the interpreter's clean-up.
    os._exit(ending)
