"""The Runner contract: hides where a driver runs, and proves whether the previous driver has terminated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from streamkeeper.model.protocol.driver_messages import LaunchSpec
from streamkeeper.model.protocol.liveness import Life, Liveness

__all__ = ["Life", "Liveness", "Runner"]


class Runner(ABC):
    """Starts process trees that outlive their starter, and proves that they have terminated."""

    def check_place(self, references: Collection[str] = (), conf: Mapping[str, str] | None = None) -> None:
        """Raise PermanentError if a driver could not be started in this place; changes nothing.

        ``references``: secrets that the driver must be able to resolve; ``conf``: a release's conf with which the
        driver must fit into its container.
        """
        return

    @abstractmethod
    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        """Start ``spec.instance``, detached; ``secrets`` maps each secret reference to its value, which is never
        written to the store.

        A repeated call does not start a second driver: a second supervisor of the same instance finds the first one's
        process record and exits at once. Raises StreamkeeperError when the process cannot be started.
        """

    @abstractmethod
    def observe(self, job: str, instance: str) -> Liveness:
        """Observe an instance; changes nothing."""

    def observe_many(self, instances: Collection[tuple[str, str]]) -> dict[tuple[str, str], Liveness]:
        """Observe many instances, each given as ``(job, instance)``, for about the cost of one scan of the machine;
        changes nothing.

        An instance that cannot be observed is UNKNOWN, with the reason.
        """
        return {instance: self.observe(*instance) for instance in instances}

    @abstractmethod
    def notify(self, job: str, instance: str) -> None:
        """Make the driver check for commands now. A lost notification costs only time, and never affects
        correctness.
        """

    def release_resources(self, job: str, instance: str, *, with_log: bool = False) -> None:
        """Release the resources that a cluster keeps to prove an instance's end, once that end is recorded.

        Repeated calls are harmless, and an instance that may be alive is never touched. ``with_log``: also release the
        log and other evidence of how the instance ended. Raises the errors of ``kill``.
        """
        del job, instance, with_log

    def where_log_is(self, job: str, instance: str) -> str:
        """Return a sentence that names the place of an instance's log in a cluster; empty if the log is a file in the
        home.
        """
        del job, instance
        return ""

    @abstractmethod
    def kill(self, job: str, instance: str) -> None:
        """Kill every process of an instance with SIGKILL, its supervisor first, without waiting for their end.

        If the instance was launched and no process has claimed it yet, no process can claim it afterwards.
        """
