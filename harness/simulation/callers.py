"""Those who call operations: a command, a task that is retried after its death, a person who stops the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.simulation.scheduler import Process
from harness.simulation.world import JOB
from streamkeeper.errors import StreamkeeperError, TemporaryError
from streamkeeper.model.request import DeployRequest, Handover, Strategy
from streamkeeper.operations.deploy import Deploy, OnOpen
from streamkeeper.operations.starting import start_job
from streamkeeper.operations.stopping import stop_job

if TYPE_CHECKING:
    from harness.simulation.world import World
    from streamkeeper.operations.installation import Installation

_RETRY_S = 5.0

Act = Callable[["Installation"], Any]
"""A request, made by a process that sees the installation."""


class Caller:
    """A process that carries out one request, and another one after it if it dies, as Airflow retries a task."""

    def __init__(self, world: World, name: str, act: Act, *, machine: str = "m1", retries: int = 8) -> None:
        self._world, self._name, self.act, self._left = world, name, act, retries
        self.process = Process(name, machine)
        self.result: Any = None
        self.refusal = ""
        self.done = False

    def start(self, *, after_s: float = 0.0) -> Caller:
        """Begin; a watcher outside of the process starts it again when it has died."""
        scheduler = self._world.scheduler
        scheduler.start(self.process, self._name, self._run, after_s=after_s)
        return self

    def revive(self) -> None:
        """Begin again after a death, if retries are left."""
        if not self.done and not self.process.alive and self._left > 0:
            self._left -= 1
            self.process = Process(self._name, self.process.machine)
            self.start(after_s=_RETRY_S)

    def _run(self) -> None:
        scheduler = self._world.scheduler
        while True:
            try:
                self.result = self.act(self._world.site_of(self.process))
                scheduler.say(f"ends: {getattr(self.result, 'sentence', self.result)}")
                break
            except TemporaryError as error:
                scheduler.say(f"fails for now: {error}")
                if self._left <= 0:
                    self.refusal = str(error)
                    break
                self._left -= 1
                scheduler.sleep(_RETRY_S)
            except StreamkeeperError as error:
                self.refusal = str(error)
                scheduler.say(f"is refused: {error}")
                break
            except Exception as error:
                scheduler.break_rule(f"{self._name} fails with {type(error).__name__}: {error}")
        self.done = True


def deploy(
    operation: str,
    *,
    release: str,
    on_open: OnOpen = OnOpen.REFUSE,
    handover: Handover = Handover.WARM,
    strategy: Strategy = Strategy.AUTO,
) -> Act:
    """Deploy a release, or continue that deploy."""

    def act(site: Installation) -> Any:
        request = DeployRequest(
            job=JOB, release=release, reason="simulated", probation_batches=1, handover=handover, strategy=strategy
        )
        return Deploy.open(site, operation, request, on_open=on_open).run()

    return act


def stop(operation: str) -> Act:
    """Stop the job."""

    def act(site: Installation) -> Any:
        return stop_job(site, JOB, requested_by="ada", reason="simulated", operation=operation)

    return act


def start(operation: str) -> Act:
    """Start the job."""

    def act(site: Installation) -> Any:
        return start_job(site, JOB, requested_by="ada", reason="simulated", operation=operation)

    return act


def resume(operation: str) -> Act:
    """Continue an open operation to its end."""

    def act(site: Installation) -> Any:
        return Deploy.load(site, JOB, operation).run()

    return act
