"""A YARN cluster of two nodes as its ResourceManager and its NodeManagers report it; the reports may be wrong, late, or
missing.

A NodeManager starts each application's supervisor, and reports its exit code. The ResourceManager counts a killed
application as terminated at once, and gives up a silent node although its processes keep running. A NodeManager that
has restarted has no record of the containers that it has left running. The supervisor of an application that the
ResourceManager has dropped is asked to terminate in response to its own reports, if they reach the ResourceManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness.simulation.cluster import NODES, Access, Cluster, Node, exit_code_of
from harness.simulation.plan import Move
from harness.simulation.runner import Watched
from harness.simulation.scheduler import START, Process
from streamkeeper.errors import NotFound, TemporaryError
from streamkeeper.model.protocol.driver_messages import LaunchSpec
from streamkeeper.runners.yarn_application import YarnRunner
from streamkeeper.runners.yarn_rest import ApplicationReport, Attempt, ContainerReport

if TYPE_CHECKING:
    from harness.simulation.world import World
    from streamkeeper.stores.contract import Store

MANAGER = "http://simulated:8088"
_EXPIRED_S = 100.0
"""The time without a report after which the ResourceManager gives a node up; ten minutes are usual."""
_LEFT_S = 3.0
"""The time within which a NodeManager kills what a container's first process has left running."""
_LISTED_S = 1.5
"""How long a NodeManager lists a container that has terminated."""
_TOLD_S = 2.0
"""The time within which a supervisor learns from its reports that its application was dropped."""
_SKEW_S = 30.0
"""How far the clocks of two machines may differ, as assumed by the real runner."""
_LOST_NODE = -100
_KILLED = "Application application was killed by user dr.who"


@dataclass(eq=False)
class _Application:
    """An application as the ResourceManager has recorded it, and the state of its NodeManager."""

    id: str
    job: str
    instance: str
    node: Node
    state: str = "ACCEPTED"
    diagnostics: str = "AM container is launched, waiting for AM container to Register with RM"
    finished_ms: int = 0
    started_ms: int = 0
    """When its attempt was started; 0 before it has a container."""
    ordered: bool = False
    """Whether its NodeManager has the order to kill its container."""
    kept_from: float = float("inf")
    """The start time of the NodeManager that has a record of its container."""
    listed: str = ""
    """The state in which its NodeManager lists its container; empty if the container is not listed."""
    root: Process | None = None
    """The supervisor; None until the NodeManager has started it."""
    told_code: bool = False
    """Whether its NodeManager has reported an exit code before the ResourceManager counted it as terminated."""
    forgotten: bool = False
    """Whether the ResourceManager has lost its record of the application."""

    @property
    def is_over(self) -> bool:
        """Return whether the ResourceManager counts the application as terminated, or has lost its record."""
        return self.forgotten or self.finished_ms > 0

    @property
    def is_known(self) -> bool:
        """Return whether the NodeManager that has started the container is still running."""
        return self.kept_from == self.node.started_s

    @property
    def is_unproven(self) -> bool:
        """Return whether neither the exit code nor a NodeManager that is old enough can prove that the application has
        terminated.
        """
        is_young = 1000.0 * (START + self.node.started_s + _SKEW_S) > self.started_ms
        return not self.told_code and (self.forgotten or not self.is_known or is_young)

    @property
    def attempt(self) -> str:
        """Return the id of the application's only attempt."""
        return f"{self.id.replace('application', 'appattempt')}_000001"


class Yarn(Cluster):
    """The ResourceManager's applications, and the processes that run on its nodes."""

    name = "the ResourceManager"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._applications: dict[str, _Application] = {}
        self._ids = 0

    # Requests to the ResourceManager

    def new_id(self) -> str:
        """Return an unused id."""
        self._ids += 1
        return f"application_1_{self._ids:04d}"

    def submit(self, application: str, job: str, instance: str) -> None:
        """Accept an application, which one of the nodes starts shortly afterwards; a second submission changes
        nothing.
        """
        if application in self._applications:
            return
        node = self._nodes[NODES[self._ids % len(NODES)]]
        found = self._applications[application] = _Application(application, job, instance, node)
        agent = Process(f"NodeManager of {application}", node.name)
        self._scheduler.start(agent, agent.name, lambda: self._run(found), after_s=self._scheduler.chance.random())

    def report(self, application: str) -> ApplicationReport | None:
        """Return the report of an application; None if the ResourceManager has no record of it."""
        found = self._applications.get(application)
        if found is None or found.forgotten:
            return None
        self._note_silence(found.node)
        return ApplicationReport(
            id=application, state=found.state, diagnostics=found.diagnostics, finished_time=found.finished_ms
        )

    def attempts(self, application: str) -> list[Attempt]:
        """Return the attempts to run an application."""
        found = self._applications.get(application)
        if found is None or found.forgotten:
            return []
        if not found.started_ms:
            return [Attempt(app_attempt_id=found.attempt, start_time=self._now_ms())]
        return [
            Attempt(
                app_attempt_id=found.attempt,
                start_time=found.started_ms,
                container_id=_container(found),
                node_http_address=found.node.name,
            )
        ]

    def end_container(self, container: str) -> None:
        """Order a container's NodeManager to kill it; a missing container is ignored."""
        found = self._of(container)
        if found is not None and not found.is_over:
            found.ordered = True
            self._scheduler.wake()

    def withdraw(self, application: str) -> None:
        """Kill an application, which counts as terminated at once; raises NotFound."""
        found = self._applications.get(application)
        if found is None or found.forgotten:
            raise NotFound(f"no record of {application}")
        self._kill(found)

    def now(self) -> float:
        """Return the time of the ResourceManager's clock, in seconds since 1970."""
        return float(int(self._scheduler.unix()))

    # Requests to a NodeManager

    def container(self, attempt: Attempt) -> ContainerReport | None:
        """Return the report of a container, or None if its NodeManager does not list it; raises TemporaryError if the
        node cannot be reached.
        """
        self._must_answer(attempt)
        found = self._of(attempt.container_id)
        if found is None or not found.listed or not found.is_known:
            return None
        return ContainerReport(id=attempt.container_id, state=found.listed)

    def node_started_ms(self, attempt: Attempt) -> int:
        """Return when a NodeManager was started, in milliseconds; raises TemporaryError if its node cannot be
        reached.
        """
        self._must_answer(attempt)
        return int(1000 * (START + self._nodes[attempt.node_http_address].started_s))

    def _must_answer(self, attempt: Attempt) -> None:
        if self._nodes[attempt.node_http_address].alone:
            raise TemporaryError(f"simulated: NodeManager {attempt.node_http_address} does not answer")

    # What happens to nodes and applications

    def _strike(self, node: Node, move: Move) -> None:
        if move.kind == "manager-restart":
            self._scheduler.say(f"fault: the NodeManager of {node.name} is restarted, and its containers run on")
            node.started_s = self._scheduler.now_s
            self._lose(node)
            return
        if there := [each for each in self._applications.values() if not each.is_over]:
            found = there[int(move.which * len(there))]
            if move.kind == "application-killed":
                self._scheduler.say(f"fault: {found.id} is killed by a person")
                self._kill(found)
            else:
                self._scheduler.say(f"fault: the ResourceManager forgets {found.id}")
                found.forgotten = True
                self._scheduler.wake()

    def _rebooted(self, node: Node, *, forgets: bool) -> str:
        del forgets
        self._lose(node)
        return ""

    def is_beyond_proof(self, instance: str) -> bool:
        return any(
            each.is_over and each.is_unproven and not any(left.alive for left in each.root.tree())
            for each in self._applications.values()
            if each.instance == instance and each.root is not None
        )

    def why_no_driver(self, supervisor: Process) -> str:
        found = next((each for each in self._applications.values() if each.root is supervisor), None)
        return "" if found is None or found.is_known else "its container's directory was removed"

    def _kill(self, found: _Application) -> None:
        self._finish(found, "KILLED", _KILLED)
        found.ordered = True
        self._scheduler.wake()

    def _lose(self, node: Node) -> None:
        """Count the applications of a node as failed, because their containers are lost."""
        for each in self._applications.values():
            if each.node is node and each.started_ms:
                self._finish(each, "FAILED", _exited(each, _LOST_NODE, "Container released on a *lost* node"))

    def _note_silence(self, node: Node) -> None:
        if node.cut_from is None or self._scheduler.now_s < node.cut_from + _EXPIRED_S:
            return
        self._lose(node)
        for each in self._applications.values():
            # When the node is back, its NodeManager is told to end all that it runs.
            each.ordered |= each.node is node

    def _finish(self, found: _Application, state: str, diagnostics: str) -> None:
        """Count an application as terminated; the first outcome is final."""
        if not found.is_over:
            found.state, found.diagnostics, found.finished_ms = state, diagnostics, self._now_ms()
            self._scheduler.wake()

    # The NodeManager

    def _run(self, found: _Application) -> None:
        """Start an application's supervisor, kill it when that is ordered, and report its exit code."""
        node, scheduler = found.node, self._scheduler
        scheduler.wait(lambda: node.cut_from is None)
        if self._is_dropped(found):
            return
        found.started_ms = self._now_ms()
        scheduler.seam()
        scheduler.wait(lambda: node.cut_from is None)
        if self._is_dropped(found):
            return
        found.kept_from, found.listed = node.started_s, "RUNNING"
        root = found.root = self._world.start_supervisor(found.job, found.instance, machine=node.name)
        reports = Process(f"reports of {found.id}", node.name)
        scheduler.start(reports, reports.name, lambda: self._report_life(found, root))
        scheduler.wait(lambda: not root.alive or self._must_end(found))
        if not found.is_known:
            # No NodeManager waits for it.
            return
        scheduler.kill(root, -9)
        found.listed = "EXITED_WITH_FAILURE"
        reports = Process(f"heartbeat of {found.id}", node.name)
        scheduler.start(reports, reports.name, lambda: self._report_end(found, exit_code_of(root)))
        scheduler.sleep(_LEFT_S * scheduler.chance.random())
        for each in root.tree():
            scheduler.kill(each, -9)
        found.listed = "DONE"
        scheduler.sleep(_LISTED_S)
        found.listed = ""

    def _is_dropped(self, found: _Application) -> bool:
        """Return whether the application is dropped already. A direct second use of the property would be taken for the
        first one by a type checker.
        """
        return found.is_over

    def _must_end(self, found: _Application) -> bool:
        """Return whether the NodeManager that runs a container has received the order to kill it."""
        return found.ordered and found.is_known and found.node.cut_from is None

    def _report_life(self, found: _Application, root: Process) -> None:
        """Report that an application is running, and ask its supervisor to terminate once the application was
        dropped.
        """
        scheduler, node = self._scheduler, found.node
        scheduler.wait(lambda: node.cut_from is None or not root.alive)
        if not found.is_over and root.alive:
            found.state, found.diagnostics = "RUNNING", ""
        scheduler.wait(lambda: not root.alive or (found.is_over and node.cut_from is None))
        scheduler.sleep(_TOLD_S * scheduler.chance.random())
        if root.alive:
            scheduler.ask_to_end(root)

    def _report_end(self, found: _Application, code: int) -> None:
        node = found.node
        self._scheduler.wait(lambda: node.cut_from is None)
        if found.is_known:
            found.told_code = not found.is_over
            self._finish(found, "FAILED", _exited(found, code, "Failing this attempt"))

    def _of(self, container: str) -> _Application | None:
        return next((each for each in self._applications.values() if _container(each) == container), None)

    def _now_ms(self) -> int:
        return int(1000 * self._scheduler.unix())


class SimulatedManager(Access):
    """One process's access to the ResourceManager and the NodeManagers, with the interface of ``ResourceManager``."""

    url = MANAGER

    def __init__(self, world: World, yarn: Yarn) -> None:
        super().__init__(world, "YARN")
        self._yarn = yarn

    def must_answer(self) -> None:
        """Check that the ResourceManager responds, as ``ResourceManager`` does."""
        self._ask("info", lambda: None)

    def new_application(self) -> str:
        """Return an unused application id, as ``ResourceManager`` does."""
        return self._ask("new-application", self._yarn.new_id)

    def submit(self, context: Mapping[str, Any]) -> None:
        """Submit an application, as ``ResourceManager`` does."""
        given = (context["application-id"], context["job"], context["instance"])
        self._ask("submit", lambda: self._yarn.submit(*given))

    def find(self, application: str) -> ApplicationReport | None:
        """Return the report of an application, as ``ResourceManager`` does."""
        return self._ask("find", lambda: self._yarn.report(application))

    def now(self) -> float:
        """Return the time of the ResourceManager's clock, as ``ResourceManager`` does."""
        return self._ask("info", self._yarn.now)

    def attempts(self, application: str) -> list[Attempt]:
        """Return the attempts of an application, as ``ResourceManager`` does."""
        return self._ask("attempts", lambda: self._yarn.attempts(application))

    def end_container(self, container: str) -> None:
        """Order the end of a container, as ``ResourceManager`` does."""
        self._ask("signal", lambda: self._yarn.end_container(container))

    def withdraw(self, application: str) -> None:
        """Kill an application, as ``ResourceManager`` does."""
        self._ask("kill", lambda: self._yarn.withdraw(application))

    def look_at_container(self, attempt: Attempt) -> ContainerReport | None:
        """Return the report of a container, as ``ResourceManager`` does."""
        return self._ask("container", lambda: self._yarn.container(attempt))

    def node_started_at(self, attempt: Attempt) -> int:
        """Return when a NodeManager was started, as ``ResourceManager`` does."""
        return self._ask("node", lambda: self._yarn.node_started_ms(attempt))


class SimulatedContainers(Watched, YarnRunner):
    """The real runner of YARN applications; only the cluster is simulated."""

    def __init__(self, world: World, store: Store) -> None:
        super().__init__(store, world.settings, {})
        self._world = world

    @cached_property
    def _simulated(self) -> SimulatedManager:
        assert isinstance(self._world.cluster, Yarn)
        return SimulatedManager(self._world, self._world.cluster)

    def _manager(self, url: str) -> Any:
        del url
        return self._simulated

    def _context(self, application: str, spec: LaunchSpec) -> dict[str, object]:
        return {"application-id": application, "job": spec.job, "instance": spec.instance}


def _container(found: _Application) -> str:
    return f"{found.id.replace('application', 'container')}_01_000001"


def _exited(found: _Application, code: int, why: str) -> str:
    told = f"Application {found.id} failed 1 times due to AM Container for {found.attempt}"
    return f"{told} exited with  exitCode: {code}\n{why}"
