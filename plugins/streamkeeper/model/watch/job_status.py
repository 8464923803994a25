"""The status of a job."""

from __future__ import annotations

from enum import Enum

from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.protocol.restart_budgets import Cause


class JobStatus(Enum):
    """The status of a job."""

    NOT_DEPLOYED = "not deployed"
    """No release of the job was ever current."""
    STARTING = "starting"
    """The job's driver runs and is not current yet."""
    SERVING = "serving"
    """The job's driver runs, owns its checkpoints and writes."""
    RESTARTING = "restarting"
    """The job's driver failed, and has not completed a trigger since."""
    WAITING = "waiting"
    """A store, sink or source does not answer, or the machine has no capacity; the job continues by itself later."""
    DRAINING = "draining"
    """The job's driver finishes the open batch."""
    FINISHED = "finished"
    """The job's driver read all input and exited (availableNow)."""
    FAILED = "failed"
    """The job's driver terminated with an error, or without a report."""
    ENDED = "ended"
    """The job's driver stopped on command, or was superseded."""
    STOPPED = "stopped"
    """A person has stopped the job; only a person starts it again."""
    UNKNOWN = "unknown"
    """The job's driver runs, or ran, in a place that cannot be observed from here."""


def find_standing(driver: ObservedDriver, *, stopped: bool = False) -> JobStatus:
    """Return the job's status.

    ``driver``: its current driver, not observed for a job that is not deployed; ``stopped``: whether a person has
    stopped the job.
    """
    if driver.life is None:
        return JobStatus.NOT_DEPLOYED
    if stopped and (driver.exit is not None or driver.terminated):
        return JobStatus.STOPPED
    if driver.exit is not None:
        return _ENDS.get(driver.exit.state, JobStatus.ENDED)
    match driver.life:
        case Life.UNKNOWN:
            return JobStatus.UNKNOWN
        case Life.DEAD | Life.ABSENT:
            return JobStatus.FAILED
        case Life.ALIVE if stopped:
            return JobStatus.DRAINING
        case Life.ALIVE:
            return _living(driver.status) if driver.status else JobStatus.STARTING


def _living(status: DriverStatus) -> JobStatus:
    """Return the status of a job whose driver has processes: the reported one, unless the driver has to recover."""
    said = _LIVES.get(status.state, JobStatus.ENDED)
    if said not in (JobStatus.SERVING, JobStatus.STARTING):
        return said
    if status.cause in (Cause.DEPENDENCY.value, Cause.CAPACITY.value):
        return JobStatus.WAITING
    failed = status.generation > 1 or bool(status.cause) or any(query.failures for query in status.queries.values())
    unproven = said is JobStatus.STARTING or any(
        query.failures or not query.triggers for query in status.queries.values() if not query.finished
    )
    return JobStatus.RESTARTING if failed and unproven else said


_ENDS = {DriverState.FINISHED: JobStatus.FINISHED, DriverState.FAILED: JobStatus.FAILED}

_LIVES = {
    DriverState.STARTING: JobStatus.STARTING,
    DriverState.STANDBY: JobStatus.STARTING,
    DriverState.SERVING: JobStatus.SERVING,
    DriverState.DRAINING: JobStatus.DRAINING,
    # A driver that still has processes reports its end shortly before; a failed driver may be restarted.
    DriverState.FINISHED: JobStatus.FINISHED,
    DriverState.FAILED: JobStatus.STARTING,
}
