"""Runs the real supervisor and the real driver as processes of a simulation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from harness.simulation.rules import DRIFT
from harness.simulation.scheduler import Process
from harness.simulation.spark import Frame, Session
from streamkeeper.authoring.definition import Query
from streamkeeper.compatibility import observations
from streamkeeper.driver.driver_lifetime import Driver
from streamkeeper.driver.ending import ending_for
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.evidence import Evidence, Look, QueryEvidence
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.protocol.driver_messages import Gather, LaunchSpec, ProcessRecord
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.journal import Journal
from streamkeeper.runners.container import Container, container_of
from streamkeeper.runners.driver_process import DriverProcess
from streamkeeper.runners.supervisor import Superseded, Supervisor
from streamkeeper.sources.contract import recreated
from streamkeeper.stores.contract import Store
from streamkeeper.system.crash_points import crash_point

if TYPE_CHECKING:
    from harness.simulation.world import World


class SimulatedSupervisor(Supervisor):
    """The real supervisor; only its driver's process is simulated."""

    def __init__(self, world: World, process: Process, store: Store, spec: LaunchSpec) -> None:
        self._world, self._process = world, process
        log: Any = SimpleNamespace(write_line=lambda text: world.scheduler.say(f"says: {text}"), last_line="")
        control = Control(store, spec.job, spec.instance)
        journal = Journal(store, spec.job, writer=spec.instance)
        super().__init__(control, journal, spec, ["driver"], log, _SimulatedContainer(world, process))

    def _run_generation(self, generation: int) -> tuple[int, str]:
        assert self._claimed is not None
        driver = self._world.start_driver(self._process, self._spec, self._claimed)
        crash_point("supervisor.started")
        self._world.scheduler.wait(lambda: not driver.alive or bool(self._process.asked_to_end_s))
        code = driver.code if not driver.alive else self._ended_in_order(_Started(self._world, driver))
        crash_point("supervisor.driver-ended")
        for left in reversed(driver.tree()):
            self._world.scheduler.kill(left, -9)
        self._log.last_line = driver.printed
        return (-self._signals.received() if code is None else code), ""


class _SimulatedContainer(Container):
    """The container that a supervisor's environment names; the cluster around it is simulated."""

    def __init__(self, world: World, process: Process) -> None:
        environ = dict(process.environ)
        super().__init__(environ)
        self._world, self._process, self._real = world, process, container_of(environ)

    @property
    def id(self) -> str:
        return self._real.id

    @property
    def grace_s(self) -> float:
        return self._real.grace_s

    def why_gone(self) -> str:
        return self._world.cluster.why_no_driver(self._process)


class _Started(DriverProcess):
    """A driver process that its supervisor has started."""

    def __init__(self, world: World, driver: Process) -> None:
        self._world, self._driver = world, driver

    def notify(self) -> None:
        if self._driver.alive and self._driver.on_nudge is not None:
            self._driver.on_nudge()

    def wait_at_most(self, seconds: float) -> int | None:
        self._world.scheduler.wait(lambda: not self._driver.alive, max(0.0, seconds))
        return self._driver.code


def run_supervisor(world: World, process: Process, job: str, instance: str) -> None:
    """Run the body of a supervisor's process, in place of ``supervise`` and ``main`` of the real one."""
    store = world.store_of(process)
    control, code = Control(store, job, instance), 0
    try:
        spec = control.read_launch()
        if spec is None:
            raise StreamkeeperError("was never launched")
        if control.read_exit() is not None:
            raise Superseded("the instance has already ended")
        SimulatedSupervisor(world, process, store, spec).run()
    except (Superseded, StreamkeeperError) as error:
        world.scheduler.say(f"ends: {error}")
        code = 1
    world.scheduler.kill(process, code)


class SimulatedDriver(Driver):
    """The real driver; only its session and the evidence about a healthy checkpoint are simulated."""

    def __init__(self, world: World, process: Process, spec: LaunchSpec, claim: ProcessRecord) -> None:
        self.world, self.process = world, process
        super().__init__(spec.job, spec.instance, claim.generation, world.settings, {}, claim=to_json(claim))

    def _start_session(self, root: Path) -> Any:
        self.world.scheduler.sleep(1.0 + 3.0 * self.world.scheduler.chance.random())
        return Session(self.world, self.process)

    def _gather(self, session: Any, planned: dict[str, PlannedQuery], root: Path) -> Evidence | None:
        asked = self._spec.gather
        if asked is None:
            return None
        looks = tuple(look for look in Look if look is not Look.RECORD)
        queries = {}
        for name, query in planned.items():
            before = self._channel.read_deployed(asked.deployed[name]) if asked.release else None
            found: dict[Look, tuple[Finding, ...]] = dict.fromkeys(looks, ()) if before is not None else {}
            if before is not None:
                self.world.rules.gathered[self._spec.instance] = self.world.drifts
                found[Look.DAMAGE] = tuple(_drift(number) for number in range(self.world.drifts))
                found[Look.SOURCES] = tuple(self._sources(asked, name))
            # Without the checkpoint's place, which is another one in every run of a schedule.
            topics = self.world.input.ids() if asked.topics.get(name) or asked.first_topics.get(name) else {}
            queries[name] = QueryEvidence(deployed=before, candidate=query.manifest, found=found, topics=topics)
        evidence = Evidence(against=asked.release, first=not asked.release, queries=queries)
        self._channel.write_evidence(evidence)
        self._status_reporter.gathered = True
        return evidence

    def _sources(self, asked: Gather, query: str) -> Iterator[Finding]:
        """Yield the findings about a recreated topic, as ``preflight.look_at_sources`` and ``look_at_history`` do."""
        topic, checkpoint = self.world.input, self._spec.rehearse_on.get(query)
        known, first = (found.get(query, {}) for found in (asked.topics, asked.first_topics))
        if checkpoint is not None and recreated(known, topic.ids()):
            if self.world.offset_of(checkpoint.rpartition("/")[2]) > topic.end() - topic.begin:
                yield observations.topic_short("source 0 (kafka)", "it ends earlier", answered=True, dropped=False)
            else:
                yield observations.topic_created_again("0 (kafka)", "it was created again")
        if recreated(first, topic.ids()):
            yield observations.history_gone("source 0 (kafka)", "it was created again")


def _drift(number: int) -> Finding:
    return Finding(rule=f"{DRIFT}{number}", severity=Severity.OPAQUE, where="the query", evidence="it has changed")


def run_driver(world: World, process: Process, spec: LaunchSpec, claim: ProcessRecord) -> None:
    """Run the body of a driver's process."""
    try:
        driver = SimulatedDriver(world, process, spec, claim)
    except Exception as error:
        world.scheduler.kill(process, int(ending_for(error, str(error)).code))
    driver.run()


def planned_queries(world: World, session: Session, spec: LaunchSpec) -> dict[str, PlannedQuery]:
    """Return the queries that the job of a release defines."""
    frame: Any = Frame(session)
    return {
        name: PlannedQuery(query=Query(name, frame, sink=world.sink), manifest=manifest, confs={})
        for name, manifest in world.manifests[spec.release].items()
    }
