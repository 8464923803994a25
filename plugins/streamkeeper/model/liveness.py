"""What can be known of a driver instance's process tree."""

from __future__ import annotations

from enum import Enum

import msgspec

from streamkeeper.model.faults import Fault


class Life(Enum):
    """What a runner can say of an instance."""

    ABSENT = "absent"
    """Never started, as far as can be proven here: a launch may go ahead."""
    ALIVE = "alive"
    """At least one process of its tree exists (frozen ones included)."""
    DEAD = "dead"
    """It was started, and its whole tree is proven gone."""
    UNKNOWN = "unknown"
    """It runs where this runner cannot look: nothing is proven."""


class Liveness(msgspec.Struct, frozen=True, kw_only=True):
    """``why`` is the proof for DEAD and the reason for UNKNOWN, as one sentence.

    ``frozen``: a process of a living tree is stopped; ``halted``: its driver, or a process that the driver started, is
    stopped by a signal, so that it cannot finish a batch; ``rebooted``: a dead one ended with the boot it ran in;
    ``elsewhere``: the host on which an unknown one can be looked at, empty where none is known. ``fault``: what has
    ended a dead one, where its runner knows.
    """

    life: Life
    why: str
    frozen: bool = False
    halted: bool = False
    rebooted: bool = False
    elsewhere: str = ""
    fault: Fault | None = None

    @property
    def recorded_fault(self) -> str:
        """``fault`` as records store it."""
        return self.fault.value if self.fault is not None else ""
