"""The processes of a simulated machine, in the form in which ``runners.process_tree`` finds them in /proc."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from harness.simulation.scheduler import Process
from streamkeeper.operations.deploys import deaths
from streamkeeper.runners import container_runner, local_process, process_tree, supervisor
from streamkeeper.runners.machine import Machine
from streamkeeper.runners.process_tree import Mark, Root

if TYPE_CHECKING:
    from harness.simulation.world import World

_STARTED = 1
"""The start time of every process; it can be the same for all, because no pid is used twice."""


class Processes:
    """All processes that have ever run in a world, by their pids."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pids: dict[Process, int] = {}
        self._by_pid: dict[int, Process] = {}

    def pid(self, process: Process) -> int:
        """Return the pid of a process."""
        if process not in self._pids:
            number = self._world.next_pid()
            self._pids[process], self._by_pid[number] = number, process
        return self._pids[process]

    def get(self, pid: int) -> Process:
        """Return the process with this pid."""
        return self._by_pid[pid]

    def own_root(self) -> Root:
        """Return the supervisor that is running at present, as a root."""
        current = self._world.scheduler.current
        assert current is not None
        return Root(pid=self.pid(current.process), started=_STARTED)

    def machine(self) -> Machine:
        """Return the machine on which the current process runs."""
        here = self._world.here
        hardware, boot, pid_namespace, user = self._world.boots[here].split(":")
        return Machine(hardware=hardware, boot=boot, pid_namespace=pid_namespace, user=int(user), host=here)

    def table(self) -> SimulatedProcessTable:
        """Return all processes of this machine at one moment; other actors may run before that."""
        self._world.scheduler.seam()
        return SimulatedProcessTable(self._world, self)

    def send(self, found: process_tree.Process, number: signal.Signals) -> None:
        """Send a signal to a process."""
        process = self.get(found.pid)
        if number is signal.SIGKILL:
            self._world.scheduler.kill(process, -number)
        elif process.alive and process.on_nudge is not None:
            process.on_nudge()

    def generation_of(self, pid: int) -> int | None:
        """Return a generation for a driver's process or a process that it started, and None for a supervisor."""
        return None if self.get(pid).parent is None else 1

    def catches(self, pid: int, _number: signal.Signals) -> bool:
        """Return whether a process has installed a handler for nudges, which only a driver does."""
        return self.get(pid).on_nudge is not None


def places(present: Callable[[], Processes]) -> tuple[tuple[Any, str, Callable[..., Any]], ...]:
    """Return which function of which module is replaced, and by what.

    ``present``: returns the processes of the world that is running.
    """

    def find(name: str) -> Callable[..., Any]:
        return lambda *given: getattr(present(), name)(*given)

    return (
        (process_tree, "ProcessTable", find("table")),
        (local_process, "ProcessTable", find("table")),
        (local_process, "this_machine", find("machine")),
        (container_runner, "this_machine", find("machine")),
        (deaths, "this_machine", find("machine")),
        (process_tree, "send", find("send")),
        (process_tree, "generation_of", find("generation_of")),
        (process_tree, "catches", find("catches")),
        (process_tree, "finds_another", lambda *_: False),
        (supervisor, "this_machine", find("machine")),
        (process_tree, "own_root", find("own_root")),
    )


class SimulatedProcessTable:
    """The simulation of ``process_tree.ProcessTable``. Every process's mark is readable, so that the recorded sessions
    add nothing.
    """

    def __init__(self, world: World, processes: Processes) -> None:
        here = world.here
        self._found: dict[str, list[process_tree.Process]] = {}
        for instance, roots in world.supervisors.items():
            living = [each for root in roots for each in root.tree() if each.alive and each.machine == here]
            self._found[instance] = [_seen(each, processes) for each in living]

    def find(self, marked: Mark, roots: Iterable[Root] = ()) -> list[process_tree.Process]:
        """Return every process of an instance, in order of pid."""
        del roots
        found = self._found.get(marked.instance.partition("/")[2], [])
        return sorted(found, key=lambda process: process.pid)


def _seen(process: Process, processes: Processes) -> process_tree.Process:
    above = process.parent
    while above is not None and not above.alive:
        above = above.parent
    return process_tree.Process(
        pid=processes.pid(process),
        parent=processes.pid(above) if above is not None else 1,
        session=1,
        started=_STARTED,
        frozen=process.frozen,
        halted=process.frozen,
    )
