"""The status of a job."""

from __future__ import annotations

from enum import Enum

from streamkeeper.model.control import DriverExit, DriverState, DriverStatus
from streamkeeper.model.liveness import Life, Liveness
from streamkeeper.model.restarts import Cause


class Standing(Enum):
    """The status of a job."""

    NOT_DEPLOYED = "not deployed"
    """No release of it was ever current."""
    STARTING = "starting"
    """Its driver runs and is not current yet."""
    SERVING = "serving"
    """Its driver runs, owns its checkpoints and writes."""
    RESTARTING = "restarting"
    """Its driver failed, and has not completed a trigger since."""
    WAITING = "waiting"
    """A store, sink or source does not answer, or the machine has no capacity: it continues by itself afterwards."""
    DRAINING = "draining"
    """Its driver finishes the open batch."""
    FINISHED = "finished"
    """Its driver read all input and ended (availableNow)."""
    FAILED = "failed"
    """Its driver ended with an error, or without a report."""
    ENDED = "ended"
    """Its driver ended on command, or was superseded."""
    STOPPED = "stopped"
    """A person has stopped it; only a person starts it again."""
    UNKNOWN = "unknown"
    """Its driver runs where it cannot be observed from here."""


def find_standing(
    status: DriverStatus | None, exit: DriverExit | None, liveness: Liveness | None, *, stopped: bool = False
) -> Standing:
    """The status from the driver's last report and the runner's observation; ``stopped``: by a person."""
    if liveness is None:
        return Standing.NOT_DEPLOYED
    if stopped and (exit is not None or liveness.life in (Life.DEAD, Life.ABSENT)):
        return Standing.STOPPED
    if exit is not None:
        return _ENDS.get(exit.state, Standing.ENDED)
    match liveness.life:
        case Life.UNKNOWN:
            return Standing.UNKNOWN
        case Life.DEAD | Life.ABSENT:
            return Standing.FAILED
        case Life.ALIVE if stopped:
            return Standing.DRAINING
        case Life.ALIVE:
            return _living(status) if status else Standing.STARTING


def _living(status: DriverStatus) -> Standing:
    """For a driver with processes: its last report, unless it has failed since and not recovered."""
    said = _LIVES.get(status.state, Standing.ENDED)
    if said not in (Standing.SERVING, Standing.STARTING):
        return said
    if status.cause in (Cause.DEPENDENCY.value, Cause.CAPACITY.value):
        return Standing.WAITING
    failed = status.generation > 1 or bool(status.cause) or any(query.failures for query in status.queries.values())
    unproven = said is Standing.STARTING or any(
        query.failures or not query.triggers for query in status.queries.values() if not query.finished
    )
    return Standing.RESTARTING if failed and unproven else said


_ENDS = {DriverState.FINISHED: Standing.FINISHED, DriverState.FAILED: Standing.FAILED}

_LIVES = {
    DriverState.STARTING: Standing.STARTING,
    DriverState.STANDBY: Standing.STARTING,
    DriverState.SERVING: Standing.SERVING,
    DriverState.DRAINING: Standing.DRAINING,
    # The report is made shortly before the last process ends; a failed driver may be restarted.
    DriverState.FINISHED: Standing.FINISHED,
    DriverState.FAILED: Standing.STARTING,
}
