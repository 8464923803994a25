"""What a runner observes of a driver instance's process tree."""

from __future__ import annotations

from enum import Enum

import msgspec

from streamkeeper.model.protocol.fault_kinds import Fault, read_fault


class Life(Enum):
    """A runner's observation of an instance."""

    ABSENT = "absent"
    """The instance was never started, as far as can be proven here: a launch may proceed."""
    ALIVE = "alive"
    """At least one process of the instance's tree exists, even if it is frozen."""
    DEAD = "dead"
    """The instance was started, and its whole process tree has provably ended."""
    UNKNOWN = "unknown"
    """The instance belongs to a place that this runner cannot observe: neither life nor end is proven."""


class Liveness(msgspec.Struct, frozen=True, kw_only=True):
    """A runner's observation of an instance, with its evidence."""

    life: Life
    """The observation."""
    why: str
    """The proof for DEAD and the reason for UNKNOWN, as one sentence."""
    frozen: bool = False
    """Whether a process of a living tree is stopped."""
    halted: bool = False
    """Whether a signal has stopped the driver, or a process of the driver, so that no batch can finish."""
    rebooted: bool = False
    """Whether a dead instance ended because its machine was rebooted."""
    elsewhere: str = ""
    """The host where an instance of UNKNOWN life can be observed; empty if no such host is known."""
    fault: Fault | None = None
    """The fault that ended a dead instance; None if the runner does not know it."""


def recorded_end(proof: str, fault: str) -> Liveness | None:
    """Return the liveness of an instance whose end is recorded, also if a person stated it; None without a record.

    ``proof`` and ``fault``: as the record has them; ``proof`` is empty without a record.
    """
    return Liveness(life=Life.DEAD, why=proof, fault=read_fault(fault)) if proof else None
