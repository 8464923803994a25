"""Why a driver ended, and how long each kind of cause is waited for."""

from __future__ import annotations

from enum import Enum

import msgspec


class Cause(Enum):
    """The consequence of an error for a restart. Stored as its value, in a field that older readers take for text."""

    FAILURE = "failure"
    """The process, the job or an unknown reason: it is restarted, a limited number of times."""
    DEPENDENCY = "dependency-down"
    """The store, a sink or a source does not answer: it is waited for, without using up a restart."""
    CAPACITY = "no-capacity"
    """The machine has no capacity: a full disk, no memory, no process left."""
    PERMANENT = "permanent"
    """A person must change something first: it is not restarted."""


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Number and pauses of restarts. Pauses double from the first to the longest; all in seconds."""

    refill_s: float = 600.0
    """A run of this length restores every budget."""
    failure_pause_s: float = 1.0
    """First pause after a failure."""
    failure_longest_s: float = 30.0
    """Longest pause after a failure."""
    dependency_pause_s: float = 2.0
    """First pause for a dependency."""
    dependency_longest_s: float = 60.0
    """Longest pause for a dependency."""
    dependency_limit_s: float = 86_400.0
    """Total time that a dependency is waited for."""
    capacity_pause_s: float = 30.0
    """First pause on a machine without capacity."""
    capacity_longest_s: float = 600.0
    """Longest pause on a machine without capacity."""
    capacity_budget: int = 48
    """Number of starts that are tried on such a machine."""


def pause(first_s: float, longest_s: float, before: int) -> float:
    """The pause after ``before`` earlier ones, in seconds."""
    # The exponent is bounded: a day of waiting would overflow it.
    return min(first_s * 2.0 ** min(before, 32), longest_s)
