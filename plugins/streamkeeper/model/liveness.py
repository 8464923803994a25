"""The observable facts about a driver instance's process tree."""

from __future__ import annotations

from enum import Enum

import msgspec

from streamkeeper.model.faults import Fault


class Life(Enum):
    """A runner's observation of an instance."""

    ABSENT = "absent"
    """Never started, as far as can be proven here: a launch may proceed."""
    ALIVE = "alive"
    """At least one process of its tree exists (frozen ones included)."""
    DEAD = "dead"
    """It was started, and its whole tree has provably ended."""
    UNKNOWN = "unknown"
    """It runs where this runner cannot observe it: nothing is proven."""


class Liveness(msgspec.Struct, frozen=True, kw_only=True):
    """The observation with its evidence."""

    life: Life
    """The observation."""
    why: str
    """The proof for DEAD and the reason for UNKNOWN, as one sentence."""
    frozen: bool = False
    """Whether a process of a living tree is stopped."""
    halted: bool = False
    """Whether a signal has stopped its driver, or a process of the driver, so that no batch can finish."""
    rebooted: bool = False
    """Whether a dead one ended with the boot in which it ran."""
    elsewhere: str = ""
    """The host where an unknown one can be observed; empty if no such host is known."""
    fault: Fault | None = None
    """The fault that ended a dead one, if its runner knows it."""

    @property
    def recorded_fault(self) -> str:
        """``fault`` in the form of records."""
        return self.fault.value if self.fault is not None else ""
