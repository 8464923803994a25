"""How a job stands, in one word."""

from __future__ import annotations

from enum import Enum

from streamkeeper.model.control import DriverExit, DriverState, DriverStatus
from streamkeeper.model.liveness import Life, Liveness
from streamkeeper.model.restarts import Cause


class Standing(Enum):
    """How a job stands, in one word."""

    NOT_DEPLOYED = "not deployed"
    """No release of it ever served."""
    STARTING = "starting"
    """Its driver runs and does not serve yet."""
    SERVING = "serving"
    """Its driver runs, owns its checkpoints and writes."""
    RESTARTING = "restarting"
    """Its driver failed, and has not completed a trigger since."""
    WAITING = "waiting"
    """A store, sink or source does not answer, or the machine has no room: it goes on by itself once that passes."""
    DRAINING = "draining"
    """Its driver finishes the open batch."""
    FINISHED = "finished"
    """Its driver read all there was and ended (availableNow)."""
    FAILED = "failed"
    """Its driver ended with an error, or without a word."""
    ENDED = "ended"
    """Its driver ended as it was asked to, or was superseded."""
    STOPPED = "stopped"
    """A person has stopped it; nothing starts it again but a person."""
    UNKNOWN = "unknown"
    """Its driver runs where it cannot be looked at from here."""


def find_standing(
    status: DriverStatus | None, exit: DriverExit | None, liveness: Liveness | None, *, stopped: bool = False
) -> Standing:
    """One word from the driver's last word and what the runner sees of its processes; ``stopped``: by a person."""
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
    """Of a driver with processes: what it said last, unless that is a promise that it has not kept since it failed."""
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
    # The word is said shortly before the last process is gone; a failed driver may be started again.
    DriverState.FINISHED: Standing.FINISHED,
    DriverState.FAILED: Standing.STARTING,
}
