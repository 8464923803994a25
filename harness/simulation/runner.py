"""The real runner of processes on a machine; only its processes are simulated, and a share of its observations
fails.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from streamkeeper.model.protocol.driver_messages import LaunchSpec
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.runners.contract import Runner
from streamkeeper.runners.local_process import LocalProcessRunner
from streamkeeper.runners.machine import Machine

if TYPE_CHECKING:
    from harness.simulation.world import World
    from streamkeeper.stores.contract import Store


class Watched(Runner):
    """A real runner in a world: a share of its observations fails, and the rules record which instances it has
    killed.
    """

    _world: World

    def observe(self, job: str, instance: str) -> Liveness:
        return self._hidden(instance) or super().observe(job, instance)  # type: ignore[safe-super]

    def kill(self, job: str, instance: str) -> None:
        super().kill(job, instance)  # type: ignore[safe-super]
        self._world.rules.killed.add(instance)

    def _hidden(self, instance: str) -> Liveness | None:
        """Return UNKNOWN for the drawn share of observations; otherwise None."""
        if not self._world.scheduler.strikes(self._world.unseen):
            return None
        self._world.scheduler.say(f"cannot observe {instance}")
        return Liveness(life=Life.UNKNOWN, why="the machine does not answer")


class SimulatedRunner(Watched, LocalProcessRunner):
    """One process's view of its machine; ``machine``: the machine on which it believes to run instead."""

    def __init__(self, world: World, store: Store, *, machine: Machine | None = None) -> None:
        super().__init__(store, world.settings, machine=machine, environ={})
        self._world = world

    def observe_many(self, instances: Collection[tuple[str, str]]) -> dict[tuple[str, str], Liveness]:
        unseen = {pair: found for pair in instances if (found := self._hidden(pair[1]))}
        return unseen | super().observe_many([pair for pair in instances if pair not in unseen])

    def _start(self, spec: LaunchSpec, secrets: Mapping[str, str]) -> None:
        del secrets
        self._world.start_supervisor(spec.job, spec.instance, after_s=self._world.scheduler.chance.random())
