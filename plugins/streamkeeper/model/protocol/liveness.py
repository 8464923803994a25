"""A runner's observation of the process tree of a driver instance."""

from __future__ import annotations

from enum import Enum

import msgspec

from streamkeeper.model.protocol.fault_kinds import Fault, read_fault


class Life(Enum):
    """Whether an instance is alive, as a runner observes it."""

    ABSENT = "absent"
    """The instance was never started, as far as can be proven here: a launch may proceed."""
    ALIVE = "alive"
    """At least one process of the instance's tree exists, even if it is frozen."""
    DEAD = "dead"
    """The instance was started, and its whole process tree has provably terminated."""
    UNKNOWN = "unknown"
    """The instance is in a place that this runner cannot observe, so that neither life nor termination is proven."""


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
    """Whether a dead instance terminated because its machine was rebooted."""
    elsewhere: str = ""
    """If the life is UNKNOWN, the host where the instance can be observed; empty if no such host is known."""
    fault: Fault | None = None
    """The fault that terminated a dead instance; None if the runner cannot determine the fault."""


def recorded_end(proof: str, fault: str) -> Liveness | None:
    """Return the liveness of an instance whose termination is recorded; None if it is not recorded.

    ``proof`` and ``fault`` are those of the record, in which the proof may be a person's statement; ``proof`` is empty
    without a record.
    """
    return Liveness(life=Life.DEAD, why=proof, fault=read_fault(fault)) if proof else None
