"""The causes of a driver's termination, and how often and after which pause each cause leads to a restart."""

from __future__ import annotations

from enum import Enum

import msgspec


class Cause(Enum):
    """The kind of cause of a driver's termination, which decides whether the driver is restarted.

    Records store the value as plain text, so that older versions of Streamkeeper accept records with a new kind.
    """

    FAILURE = "failure"
    """The process or the job failed, or the reason is unknown: the driver is restarted a limited number of times."""
    DEPENDENCY = "dependency-down"
    """The store, a sink or a source does not answer: the driver is restarted later, without using up a restart."""
    CAPACITY = "no-capacity"
    """The machine has no capacity: a full disk, not enough memory, or no free process."""
    PERMANENT = "permanent"
    """A person must change something first: the driver is not restarted."""


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The budgets and pauses of restarts, in seconds. Pauses double from the first to the longest."""

    refill_s: float = 600.0
    """Length of a run that restores every budget."""
    failure_pause_s: float = 1.0
    """First pause after a failure."""
    failure_longest_s: float = 30.0
    """Longest pause after a failure."""
    dependency_pause_s: float = 2.0
    """First pause while a dependency does not answer."""
    dependency_longest_s: float = 60.0
    """Longest pause while a dependency does not answer."""
    dependency_limit_s: float = 86_400.0
    """Total time of waiting for a dependency, after which the driver is no longer restarted."""
    capacity_pause_s: float = 30.0
    """First pause on a machine without capacity."""
    capacity_longest_s: float = 600.0
    """Longest pause on a machine without capacity."""
    capacity_budget: int = 48
    """Number of restarts on a machine without capacity."""


def pause(first_s: float, longest_s: float, before: int) -> float:
    """Return the next pause in seconds, after ``before`` earlier pauses."""
    # The exponent is bounded: it would overflow after a day of pauses.
    return min(first_s * 2.0 ** min(before, 32), longest_s)
