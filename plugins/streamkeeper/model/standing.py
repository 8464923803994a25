"""How a job stands, in one word."""

from __future__ import annotations

from enum import Enum

from streamkeeper.model.control import DriverExit, DriverState, DriverStatus
from streamkeeper.model.liveness import Life, Liveness


class Standing(Enum):
    """How a job stands, in one word."""

    NOT_DEPLOYED = "not deployed"
    """No release of it ever served."""
    STARTING = "starting"
    """Its driver runs and does not serve yet."""
    SERVING = "serving"
    """Its driver runs, owns its checkpoints and writes."""
    DRAINING = "draining"
    """Its driver finishes the open batch."""
    FINISHED = "finished"
    """Its driver read all there was and ended (availableNow)."""
    FAILED = "failed"
    """Its driver ended with an error, or without a word."""
    ENDED = "ended"
    """Its driver ended as it was asked to, or was superseded."""
    UNKNOWN = "unknown"
    """Its driver runs where it cannot be looked at from here."""


def find_standing(status: DriverStatus | None, exit: DriverExit | None, liveness: Liveness | None) -> Standing:
    """One word from the driver's last word and what the runner sees of its processes."""
    if liveness is None:
        return Standing.NOT_DEPLOYED
    if exit is not None:
        return _ENDS.get(exit.state, Standing.ENDED)
    match liveness.life:
        case Life.UNKNOWN:
            return Standing.UNKNOWN
        case Life.DEAD | Life.ABSENT:
            return Standing.FAILED
        case Life.ALIVE:
            return _LIVES.get(status.state, Standing.ENDED) if status else Standing.STARTING


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
