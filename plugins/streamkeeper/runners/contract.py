"""The Runner contract: where a driver runs is its secret; whether the old one is dead is not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from streamkeeper.model.control import LaunchSpec
from streamkeeper.model.liveness import Life, Liveness

__all__ = ["Life", "Liveness", "Runner"]


class Runner(ABC):
    """Starts process trees that outlive their starter, and proves them dead."""

    def check_place(self, references: Collection[str] = (), conf: Mapping[str, str] | None = None) -> None:
        """Raise PermanentError where no driver could run, however it is launched, none could get the values of these
        secret references, or none with this conf of a release fits; changes nothing.
        """
        return

    @abstractmethod
    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        """Start ``spec.instance``, detached; ``secrets`` maps reference -> value and is never stored.

        Calling it twice starts at most one tree that does anything: a second supervisor of the same instance finds
        the first one's process record and ends at once. Raises StreamkeeperError when the process cannot be started.
        """

    @abstractmethod
    def observe(self, job: str, instance: str) -> Liveness:
        """Look, change nothing."""

    def observe_many(self, instances: Collection[tuple[str, str]]) -> dict[tuple[str, str], Liveness]:
        """Look at many, ``(job, instance)`` each, for about the price of one look at the machine; change nothing.

        One that cannot be looked at is UNKNOWN, with the reason.
        """
        return {instance: self.observe(*instance) for instance in instances}

    @abstractmethod
    def nudge(self, job: str, instance: str) -> None:
        """Ask the driver to look for commands now; losing a nudge costs time, never correctness."""

    def bury(self, job: str, instance: str, *, with_log: bool = False) -> None:
        """Let go of what is kept somewhere else for the proof of an end, once that is on record; harmless, and nothing
        is taken from one that may live. ``with_log``: of what tells how it ended, too. Raises as ``kill``.
        """
        del job, instance, with_log

    def where_log_is(self, job: str, instance: str) -> str:
        """One sentence, where YARN or the like keeps the log of an instance; empty where it is a file of the home."""
        del job, instance
        return ""

    @abstractmethod
    def kill(self, job: str, instance: str) -> None:
        """SIGKILL every process of the tree, supervisor first; harmless when there is none. Does not wait."""
