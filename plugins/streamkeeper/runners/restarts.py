"""When a driver that ended is started again: a pure rule over its failures."""

from __future__ import annotations

from enum import Enum

import msgspec

from streamkeeper.model.control import DriverState, ExitCode

WINDOW_S = 600.0
LONGEST_PAUSE_S = 30.0

_LAST_WORDS = {
    ExitCode.DRAINED: DriverState.DRAINED,
    ExitCode.FINISHED: DriverState.FINISHED,
    ExitCode.FENCED: DriverState.FENCED,
    ExitCode.STOPPED: DriverState.STOPPED,
    ExitCode.REFUSED: DriverState.FAILED,
}


class Next(Enum):
    """What follows the end of a driver process."""

    END = "end"
    RESTART = "restart"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """``state``: how the instance ends (END only); ``pause_s``: how long to wait first (RESTART only)."""

    next: Next
    reason: str
    state: DriverState = DriverState.FAILED
    pause_s: float = 0.0


def decide(code: int, failures: tuple[float, ...], *, now: float, budget: int) -> Decision:
    """What follows an exit with ``code`` at ``now``; ``failures`` are the moments of the earlier ones, in seconds.

    A store that was lost costs no restart: the next generation's claim waits for it. At most ``budget`` others in any
    ten minutes, after pauses of 1, 2, 4 … 30 seconds.
    """
    if code in _LAST_WORDS:
        ending = ExitCode(code)
        return Decision(next=Next.END, state=_LAST_WORDS[ending], reason=f"it ended {ending.name.lower()}")
    if code == ExitCode.STORE_LOST:
        return Decision(next=Next.RESTART, reason="it lost the store; it goes on when the store answers")
    recent = sum(1 for each in failures if now - each < WINDOW_S)
    what = describe_code(code)
    if recent >= budget:
        return Decision(next=Next.END, reason=f"{what}; {recent} restarts in {WINDOW_S / 60:.0f} minutes used up")
    pause_s = min(2.0**recent, LONGEST_PAUSE_S)
    return Decision(next=Next.RESTART, reason=f"{what}; restart {recent + 1} of {budget}", pause_s=pause_s)


def describe_code(code: int) -> str:
    """An exit code in words."""
    return f"it was ended by signal {-code}" if code < 0 else f"it failed with exit code {code}"
