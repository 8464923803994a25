"""The observation of a job: its journal and its drivers. Each part is read when it is first needed, and at most once.

This is the only module that decides whether a driver is alive. The journal's record of a driver's termination takes
precedence over what the runner observes, even if a person stated the termination. Without such a record, the runner
observes the processes of the instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial

from streamkeeper.errors import FormatTooNew, NotFound, RegistryDamaged
from streamkeeper.model.protocol.driver_messages import Command, DriverExit, DriverStatus
from streamkeeper.model.protocol.liveness import Liveness, recorded_end
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.known_checkpoint import KnownCheckpoint, commits_of, known_checkpoint
from streamkeeper.model.watch.job_status import JobStatus, find_standing
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.lost_jobs import must_not_be_lost
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.jobs import list_jobs
from streamkeeper.registry.journal import Journal, has_journal


def recorded_jobs(installation: Installation) -> list[str]:
    """Return the names of all jobs with a journal, in order. A job that has only a pushed bundle is omitted."""
    return [job for job in list_jobs(installation.store) if has_journal(installation.store, job)]


def read_job(installation: Installation, job: str) -> JobState:
    """Return a job's state; raises NotFound for a job without a journal."""
    return on_record(installation, Journal(installation.store, job, writer="reader").state())


def read_job_again(installation: Installation, job: str) -> JobState:
    """Return what ``read_job`` returns; journal entries that this process has already read come from a cache."""
    return on_record(installation, installation.known_jobs.read(job))


def on_record(installation: Installation, state: JobState) -> JobState:
    """Return the state of a job that has a journal; raises NotFound for one without."""
    if state.number == 0:
        must_not_be_lost(installation, state.job)
        known = ", ".join(list_jobs(installation.store))
        hint = f"name one of the known jobs: {known}" if known else "deploy a job first"
        raise NotFound(f"job {state.job} is not known to {installation.settings.store}", hint=hint)
    return state


class JobObservation:
    """One observation of one job; to observe the job anew, create a new object. Not thread-safe.

    ``installation`` and ``job``: the job; ``state``: what its journal records, if the caller has read it.
    """

    def __init__(self, installation: Installation, job: str, *, state: JobState | None = None) -> None:
        self.installation, self.job = installation, job
        self._drivers: dict[str, DriverObservation] = {}
        if state is not None:
            self.state = state

    @cached_property
    def state(self) -> JobState:
        """The job as its journal records it. Raises NotFound without a journal, JournalLost for a lost journal."""
        return read_job(self.installation, self.job)

    @property
    def observed(self) -> ObservedDriver:
        """The observation of the current driver; empty if no instance is current."""
        return self.current.observed if self.current is not None else ObservedDriver()

    @property
    def standing(self) -> JobStatus:
        """The job's status."""
        return find_standing(self.observed, stopped=self.state.stopped is not None)

    @property
    def current(self) -> DriverObservation | None:
        """The current instance; None without one."""
        return self.driver(self.state.serving_instance) if self.state.serving_instance else None

    def driver(self, instance: str) -> DriverObservation:
        """Return the observation of one of the job's instances."""
        if instance not in self._drivers:
            self._drivers[instance] = DriverObservation(
                self.installation, self.job, instance, end=lambda: end_of(self.state, instance)
            )
        return self._drivers[instance]

    def known_version(self, query: str, version: str) -> KnownCheckpoint:
        """Return the facts that the journal and the last driver recorded about a version.

        Call this before reading the version's files. Raises FormatTooNew or RegistryDamaged if the driver's status
        cannot be read.
        """
        recorded = self.state.version(query, version)
        if recorded is None:
            return KnownCheckpoint(series=f"{self.job}/{query}", version=version)
        status = self.driver(recorded.claimed_by).status if recorded.claimed_by else None
        return known_checkpoint(self.job, recorded, commits_of(status))


class DriverObservation:
    """One observation of one driver instance; to observe the instance anew, create a new object. Not thread-safe.

    ``installation``, ``job`` and ``instance``: the instance; ``end``: returns the recorded end of the instance, None
    without one. By default no record counts, so only the runner decides whether the instance is alive.
    """

    def __init__(
        self,
        installation: Installation,
        job: str,
        instance: str,
        *,
        end: Callable[[], Liveness | None] = lambda: None,
    ) -> None:
        self._installation, self._job, self._instance, self._end = installation, job, instance, end
        self.control = Control(installation.store, job, instance)

    @classmethod
    def of(cls, installation: Installation, state: JobState, instance: str) -> DriverObservation:
        """Return an observation of an instance of a job; ``state``: the job's state, which may record the instance's
        end.
        """
        return cls(installation, state.job, instance, end=partial(end_of, state, instance))

    @cached_property
    def liveness(self) -> Liveness:
        """Whether the instance is alive, with the evidence."""
        return self._end() or self._installation.runner.observe(self._job, self._instance)

    @property
    def status(self) -> DriverStatus | None:
        """The last status; None without one. Raises FormatTooNew or RegistryDamaged if it cannot be read."""
        if isinstance(self._report, FormatTooNew | RegistryDamaged):
            raise self._report
        return self._report

    @property
    def readable_status(self) -> DriverStatus | None:
        """The last status; None without a readable one. Do not use this to prove what was committed."""
        return None if isinstance(self._report, FormatTooNew | RegistryDamaged) else self._report

    @property
    def unread(self) -> str:
        """Why the last status cannot be read; empty if it can be read or if there is no status."""
        return str(self._report) if isinstance(self._report, FormatTooNew | RegistryDamaged) else ""

    @cached_property
    def exit(self) -> DriverExit | None:
        """The record of the instance's end; None without one."""
        return self.control.read_exit()

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        """All commands that were sent to the instance, in order."""
        return tuple(self.control.commands(0))

    @cached_property
    def observed(self) -> ObservedDriver:
        """The instance's liveness, last readable status and exit record, read in this order.

        The order matters, because a supervisor records the end of its driver before it terminates itself.
        """
        return ObservedDriver(liveness=self.liveness, status=self.readable_status, exit=self.exit)

    def observed_by(self, operation: str) -> ObservedDriver:
        """Return what ``observed`` returns, whether the instance has described its queries, and the kinds of the
        commands that the operation has sent to it. This costs one additional listing, and only reads records that
        exist.
        """
        # In this order, for the same reason as in ``observed``.
        liveness, status, records = self.liveness, self.readable_status, self.control.records()
        commands = self.commands if any(name.startswith("commands/") for name in records) else ()
        return ObservedDriver(
            liveness=liveness,
            status=status,
            exit=self.exit if "exit.json" in records else None,
            described="manifests.json" in records,
            sent=frozenset(command.kind for command in commands if command.operation == operation),
        )

    @cached_property
    def _report(self) -> DriverStatus | FormatTooNew | RegistryDamaged | None:
        try:
            return self.control.read_status()
        except (FormatTooNew, RegistryDamaged) as error:
            return error


def end_of(state: JobState, instance: str) -> Liveness | None:
    """Return the end of an instance as the journal records it; None if the journal records no end."""
    known = state.instances.get(instance)
    return recorded_end(known.proof, known.fault) if known is not None else None


def observe_livenesses(
    installation: Installation, ends: Mapping[tuple[str, str], Liveness | None]
) -> dict[tuple[str, str], Liveness]:
    """Return whether each instance is alive, with one observation of the machine.

    ``ends``: (job, instance) -> its recorded end, None without one.
    """
    recorded = {driver: end for driver, end in ends.items() if end is not None}
    return {**recorded, **installation.runner.observe_many([driver for driver in ends if driver not in recorded])}


def observe_instances(installation: Installation, state: JobState, instances: Iterable[str]) -> dict[str, Liveness]:
    """Return instance -> whether it is alive, for instances of one job, with one observation of the machine."""
    seen = observe_livenesses(installation, {(state.job, name): end_of(state, name) for name in instances})
    return {instance: liveness for (_, instance), liveness in seen.items()}
