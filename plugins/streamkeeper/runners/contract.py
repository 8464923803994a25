"""The Runner contract: where a driver runs is its secret; whether the old one is dead is not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum

import msgspec

from streamkeeper.model.control import LaunchSpec


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
    """``why`` is the proof for DEAD and the reason for UNKNOWN, as one sentence."""

    life: Life
    why: str


class Runner(ABC):
    """Starts process trees that outlive their starter, and proves them dead."""

    @abstractmethod
    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        """Start ``spec.instance``, detached; ``secrets`` maps reference -> value and is never stored.

        Calling it twice starts at most one tree that does anything: a second supervisor of the same instance finds
        the first one's process record and ends at once. Raises StreamkeeperError when the process cannot be started.
        """

    @abstractmethod
    def observe(self, job: str, instance: str) -> Liveness:
        """Look, change nothing."""

    @abstractmethod
    def nudge(self, job: str, instance: str) -> None:
        """Ask the driver to look for commands now; losing a nudge costs time, never correctness."""

    @abstractmethod
    def kill(self, job: str, instance: str) -> None:
        """SIGKILL every process of the tree, supervisor first; harmless when there is none. Does not wait."""
