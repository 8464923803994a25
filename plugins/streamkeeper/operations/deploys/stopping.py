"""Stop a job: record the desired state, then drain the driver and prove its termination.

The desired state is recorded first, so that the next stop continues an interrupted one under the recorded id, and no
process starts the job in between.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from streamkeeper.errors import OperationOpen, OperationRefused
from streamkeeper.lifecycle.actions import Kill, RecordEnd, Send, Wait
from streamkeeper.lifecycle.instances import kill_wait
from streamkeeper.lifecycle.stop_steps import Stopped, StopView, TakenOver, Unprovable, decide_stop
from streamkeeper.model.names import check_instance
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import DesiredChanged, InstanceEnded, Record
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.requests.request_limits import check_number
from streamkeeper.operations.deploys.deaths import make_unclaimable, release_resources
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import DriverObservation, on_record
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.journal import Journal
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point

POLL_S = 0.1
_USUAL = DeployRequest(job="any")


class StopEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a stop.

    ``already``: whether the job was stopped before and had no driver left; ``instance``: the job's last driver.
    """

    sentence: str
    already: bool = False
    instance: str = ""


def stop_job(
    installation: Installation,
    job: str,
    *,
    requested_by: str,
    reason: str,
    operation: str,
    drain_s: float = _USUAL.drain_s,
    log: Callable[[str], None] | None = None,
) -> StopEnd:
    """Stop a job until a person starts it again. Idempotent; an interrupted stop is continued.

    ``installation`` and ``job``: the job to stop; ``requested_by`` and ``reason``: of the request; ``operation``: an id
    for the record; ``drain_s``: seconds after which a driver is killed; ``log``: called with progress lines.

    Raises NotFound for an unknown job, OperationOpen while an operation is open, and OperationRefused for a job that
    never had a current release. Raises OperationRefused also if the termination of the driver cannot be proven from
    here; the job is then recorded as stopped.
    """
    journal = installation.journal(job, f"stop:{operation}")
    before = on_record(installation, journal.state())
    check_instance(operation)
    check_number("drain_s", drain_s)
    crash_point("stop.record.before")
    state = _record_wish(journal, DesiredChanged(
        serve=False, requested_by=requested_by, reason=reason, operation=operation
    ))  # fmt: skip
    crash_point("stop.record.after")
    assert state.stopped is not None
    if before.stopped is not None and not state.owners:
        return StopEnd(sentence=told_stopped(job, before.stopped), already=True, instance=state.serving_instance)
    return _Stop(installation, journal, job, state.stopped.operation, drain_s, log or (lambda line: None)).run()


def told_stopped(job: str, stopped: DesiredChanged) -> str:
    """Return one sentence: that the job is stopped, by whom and why."""
    why = f": {stopped.reason}" if stopped.reason else ""
    return f"job {job} is stopped, by {stopped.requested_by or 'an unknown user'}{why}"


def _record_wish(journal: Journal, wish: DesiredChanged) -> JobState:
    def wanted(state: JobState) -> Record | None:
        if state.open_operation is not None:
            raise OperationOpen(state.job, state.open_operation.operation)
        if state.stopped is not None:
            return None
        if not state.serving_release and not state.owners:
            raise OperationRefused(
                f"job {state.job} never had a current release: there is no driver to stop", hint="deploy the job first"
            )
        return wish

    return journal.append(wanted)


class _Stop:
    """Carries out one stop."""

    def __init__(
        self,
        installation: Installation,
        journal: Journal,
        job: str,
        stop: str,
        drain_s: float,
        log: Callable[[str], None],
    ) -> None:
        self._installation, self._journal, self._job, self._stop = installation, journal, job, stop
        self._drain_s, self._log = drain_s, log
        self._on, self._since = "", clock.monotonic()

    def run(self) -> StopEnd:
        """Run until no driver is left; every wait has a deadline."""
        logged = ""
        while True:
            view = self._look()
            decision = decide_stop(view)
            if decision.reason != logged:
                logged = decision.reason
                self._log(logged)
            match decision.action:
                case Stopped():
                    instance = view.state.serving_instance
                    return StopEnd(sentence=f"job {self._job} is stopped: {decision.reason}", instance=instance)
                case TakenOver():
                    raise OperationRefused(f"job {self._job}: {decision.reason}")
                case Unprovable():
                    raise OperationRefused(
                        f"the stop of job {self._job} is recorded, but not complete: {decision.reason}",
                        hint=f"run `streamkeeper stop {self._job} --reason …` on the machine of that driver",
                    )
                case Wait(on=on):
                    self._wait(on)
                    clock.sleep(POLL_S)
                case act:
                    name = f"stop.{type(act).__name__.lower()}"
                    crash_point(f"{name}.before")
                    self._carry_out(act)
                    crash_point(f"{name}.after")

    def _carry_out(self, act: Send | Kill | RecordEnd) -> None:
        match act:
            case Send(instance=instance, kind=kind):
                Control(self._installation.store, self._job, instance).send(kind, self._stop)
                self._installation.runner.notify(self._job, instance)
            case Kill(instance=instance):
                self._installation.runner.kill(self._job, instance)
                self._wait(kill_wait(instance))
                clock.sleep(POLL_S)
            case RecordEnd(instance=instance, proof=proof, exit=last, fault=fault, unclaimed=unclaimed):
                if not unclaimed or make_unclaimable(self._installation, self._job, instance):
                    self._record_end(instance, proof or "never started", last, fault)

    def _record_end(self, instance: str, proof: str, last: str, fault: str) -> None:
        def still_owns(state: JobState) -> Record | None:
            known = state.instances.get(instance)
            if known is None or known.ended:
                return None
            return InstanceEnded(
                operation=self._stop, instance=instance, proof=proof, exit=last, stated_by="", fault=fault
            )

        self._journal.append(still_owns)
        release_resources(self._installation, self._job, instance)

    def _look(self) -> StopView:
        state = self._journal.state()
        return StopView(
            state=state,
            stop=self._stop,
            seen={owner.instance: self._seen(state, owner.instance) for owner in state.owners},
            drain_s=self._drain_s,
            on=self._on,
            waited_s=clock.monotonic() - self._since if self._on else 0.0,
        )

    def _seen(self, state: JobState, instance: str) -> ObservedDriver:
        driver = DriverObservation.of(self._installation, state, instance)
        # The driver receives the order to drain only once, even from several stops.
        return msgspec.structs.replace(driver.observed, sent=frozenset(command.kind for command in driver.commands))

    def _wait(self, on: str) -> None:
        if on != self._on:
            self._on, self._since = on, clock.monotonic()
