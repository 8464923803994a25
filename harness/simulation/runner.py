"""A runner whose processes are simulated; what it may claim follows the contract of ``runners.contract``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from harness.simulation.scheduler import Process
from streamkeeper.crash_points import crash_point
from streamkeeper.model.control import LaunchSpec
from streamkeeper.model.liveness import Life, Liveness
from streamkeeper.registry.control import Control
from streamkeeper.runners.claims import NEVER_STARTED, bar, is_barred
from streamkeeper.runners.contract import Runner

if TYPE_CHECKING:
    from harness.simulation.world import World
    from streamkeeper.stores.contract import Store


class SimulatedRunner(Runner):
    """One process's view of the machine."""

    def __init__(self, world: World, store: Store) -> None:
        self._world, self._store = world, store

    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        del secrets
        control = Control(self._store, spec.job, spec.instance)
        crash_point("launch.spec.before")
        control.write_launch(spec)
        crash_point("launch.spec.after")
        if control.processes() or self._tree(spec.instance):
            return
        self._world.launchers.add((spec.instance, self._world.here))
        crash_point("launch.process.before")
        self._world.start_supervisor(spec)
        crash_point("launch.process.after")

    def observe(self, job: str, instance: str) -> Liveness:
        scheduler, here = self._world.scheduler, self._world.here
        scheduler.seam()
        if self._world.unseen and scheduler.random.random() < self._world.unseen:
            scheduler.say(f"cannot observe {instance}")
            return Liveness(life=Life.UNKNOWN, why="the machine does not answer")
        if tree := self._tree(instance):
            return self._alive(tree)
        control = Control(self._store, job, instance)
        recorded = control.processes()
        launched = bool(recorded) or control.read_launch() is not None
        # The processes are looked for after the records were read: a supervisor claims before it starts a driver.
        tree = self._tree(instance)
        if not launched:
            return Liveness(life=Life.ABSENT, why="the instance was never launched")
        if is_barred(recorded):
            return Liveness(life=Life.DEAD, why=NEVER_STARTED)
        if tree:
            return self._alive(tree)
        if not recorded:
            return self._unclaimed(instance)
        elsewhere = [record for record in recorded if record.host != here]
        if elsewhere:
            return Liveness(life=Life.UNKNOWN, why=f"it ran on {elsewhere[0].host}", elsewhere=elsewhere[0].host)
        return Liveness(life=Life.DEAD, why="its supervisor and all its processes have ended")

    def _unclaimed(self, instance: str) -> Liveness:
        """As the launchers' records tell it: on another machine a supervisor may be about to claim."""
        other = next((each for each in self._world.boots if (instance, each) in self._world.launchers), "")
        if other and other != self._world.here:
            return Liveness(life=Life.UNKNOWN, why=f"it was launched on {other}", elsewhere=other)
        return Liveness(life=Life.ABSENT, why="no process has claimed it and none is starting")

    def nudge(self, job: str, instance: str) -> None:
        del job
        self._world.scheduler.seam()
        for process in self._tree(instance):
            if process.on_nudge is not None:
                process.on_nudge()

    def kill(self, job: str, instance: str) -> None:
        self._world.scheduler.seam()
        control = Control(self._store, job, instance)
        if not control.processes() and control.read_launch() is not None:
            here = SimpleNamespace(text=self._world.boots[self._world.here], host=self._world.here)
            bar(control, instance, cast(Any, here), "")
        while tree := self._tree(instance):
            self._world.scheduler.kill(tree[0], -9)

    def _tree(self, instance: str) -> list[Process]:
        return self._world.living(instance, self._world.here)

    @staticmethod
    def _alive(tree: list[Process]) -> Liveness:
        names = ", ".join(f"{each.name}{' (frozen)' if each.frozen else ''}" for each in tree)
        frozen = any(each.frozen for each in tree)
        halted = any(each.frozen for each in tree if each.parent is not None)
        return Liveness(life=Life.ALIVE, why=f"processes {names}", frozen=frozen, halted=halted)
