"""The nodes of a cluster. While a node is cut off, its processes keep running, and the cluster receives no reports
about them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from harness.simulation.plan import Move
from harness.simulation.scheduler import Process
from streamkeeper.errors import TemporaryError

if TYPE_CHECKING:
    from harness.simulation.world import World

NODES = ("n1", "n2")
_HALF = 0.5
T = TypeVar("T")


@dataclass
class Node:
    """A machine of a cluster."""

    name: str
    cut_from: float | None = None
    """The time from which the node cannot reach its cluster; None while it can."""
    alone: bool = False
    """Whether nothing else reaches the node either."""
    started_s: float = -3600.0
    """The time at which the node's agent, such as a kubelet or a NodeManager, was started."""


class Cluster:
    """A cluster of two nodes. Nothing runs there unless a subclass starts it."""

    name = "no cluster"

    def __init__(self, world: World) -> None:
        self._world, self._scheduler = world, world.scheduler
        self._nodes = {name: Node(name) for name in NODES}

    def strike(self, move: Move) -> None:
        """Inject one of the faults in CLUSTER_FAULTS."""
        node, half = self._nodes[NODES[move.machine == "m2"]], move.which < _HALF
        match move.kind:
            case "node-cut":
                self._cut_off(node, 2.0 * move.seconds, alone=half)
            case "node-boot":
                told = self._rebooted(node, forgets=half)
                self._scheduler.say(f"fault: {node.name} is rebooted{told}")
                node.started_s = self._scheduler.now_s
                self._world.boot(node.name)
            case _:
                self._strike(node, move)

    def join(self, name: str) -> None:
        """Reconnect a node with its cluster."""
        node = self._nodes[name]
        self._note_silence(node)
        node.cut_from, node.alone = None, False
        self._scheduler.wake()

    def is_beyond_proof(self, _instance: str) -> bool:
        """Return whether an instance has terminated in such a way that no report will ever prove it."""
        return False

    def why_no_driver(self, _supervisor: Process) -> str:
        """Return why a supervisor can start no more drivers; empty if it can."""
        return ""

    def _strike(self, node: Node, move: Move) -> None:
        """Inject a fault that only this kind of cluster has."""

    def _rebooted(self, _node: Node, *, forgets: bool) -> str:
        """Prepare for the end of all processes of a node, and return what to add to the trace; ``forgets``: whether the
        node's agent loses its record of them.
        """
        del forgets
        return ""

    def _note_silence(self, node: Node) -> None:
        """Apply what the cluster concludes from a node's silence so far."""

    def _cut_off(self, node: Node, seconds: float, *, alone: bool) -> None:
        """Cut a node off from its cluster; ``alone``: also from the store."""
        what = f"{self.name} or the store" if alone else self.name
        self._scheduler.say(f"fault: {node.name} cannot reach {what} for {seconds:g} s")
        node.cut_from, node.alone = self._scheduler.now_s, alone
        self._scheduler.start(Process("world", "-"), "world", lambda: self.join(node.name), after_s=seconds)
        for each in self._world.processes() if alone else ():
            if each.machine == node.name:
                each.blind_until = self._scheduler.now_s + seconds


class Access:
    """One process's requests to a cluster, which fail half as often as requests to the store."""

    def __init__(self, world: World, name: str) -> None:
        """Store the world and ``name``, the cluster's name in errors."""
        self._world, self._name = world, name

    def _ask(self, what: str, answer: Callable[[], T]) -> T:
        """Return the response to a request; raises TemporaryError if the request or its response is lost."""
        scheduler = self._world.scheduler
        scheduler.seam()
        if scheduler.strikes(self._world.lost / 2):
            raise TemporaryError(f"simulated: no answer of {self._name} to {what}")
        found = answer()
        scheduler.seam()
        if scheduler.strikes(self._world.lost / 2):
            scheduler.say(f"{self._name}'s answer to {what} is lost")
            raise TemporaryError(f"simulated: the answer of {self._name} to {what} is lost")
        return found


def exit_code_of(process: Process) -> int:
    """Return the exit code of a container's first process, which has terminated, as a node reports it."""
    code = process.code or 0
    return 128 - code if code < 0 else code
