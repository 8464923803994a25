"""Why a driver ended, and how long each kind of cause is waited out."""

from __future__ import annotations

from enum import Enum

import msgspec


class Cause(Enum):
    """What an error means for a restart. Stored as its value, in a field that older readers take for text."""

    FAILURE = "failure"
    """The process, the job or something unknown: it is started again, a limited number of times."""
    DEPENDENCY = "dependency-down"
    """The store, a sink or a source does not answer: it is waited for, and costs no restart."""
    CAPACITY = "no-capacity"
    """The machine has no room: a full disk, no memory, no process left."""
    PERMANENT = "permanent"
    """A person has to change something first: it is not started again."""


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often, and after which pauses. Pauses double from the first to the longest; all in seconds.

    ``refill_s``: a run of this length gives every budget back. ``dependency_limit_s``: how long a dependency is waited
    for in all. ``capacity_budget``: how many starts are tried on a machine without room.
    """

    refill_s: float = 600.0
    failure_pause_s: float = 1.0
    failure_longest_s: float = 30.0
    dependency_pause_s: float = 2.0
    dependency_longest_s: float = 60.0
    dependency_limit_s: float = 86_400.0
    capacity_pause_s: float = 30.0
    capacity_longest_s: float = 600.0
    capacity_budget: int = 48


def pause(first_s: float, longest_s: float, before: int) -> float:
    """The pause after so many others, in seconds."""
    # The exponent is held: a day of waiting would overflow it.
    return min(first_s * 2.0 ** min(before, 32), longest_s)
