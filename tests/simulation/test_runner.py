"""Tests that the simulated runners keep the contracts of the real ones, with the real supervisor and its simulated
processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.simulation.kubernetes import SimulatedPods
from harness.simulation.plan import Move
from harness.simulation.process_table import SimulatedProcessTable
from harness.simulation.releases import JOB
from harness.simulation.runner import SimulatedRunner
from harness.simulation.scheduler import Process, Scheduler
from harness.simulation.world import World
from harness.simulation.yarn import SimulatedContainers
from streamkeeper.model.protocol.driver_messages import LaunchMode, LaunchSpec, ProcessRecord
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.runner_kinds.kubernetes_kind import KUBERNETES
from streamkeeper.model.runner_kinds.yarn_kind import YARN
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners import container_runner, local_process, yarn_application
from streamkeeper.runners.machine import Machine
from streamkeeper.runners.supervisor import Superseded, Supervisor
from tests.contracts.machine_contract import MachineContract
from tests.contracts.runner_contract import RunnerContract

_POLL_S = 0.05
_LONGEST_S = 600.0


class Drivers(World):
    """A world whose drivers only obey orders, as those of ``tests/runners/fake_driver.py`` do."""

    def __init__(self, scheduler: Scheduler, **kinds: Any) -> None:
        super().__init__(scheduler, **kinds)
        self.orders: dict[str, list[str]] = {}
        self.started: list[Process] = []
        self.ready: dict[str, tuple[Process, Process]] = {}
        self.nudged: set[str] = set()
        self.dies_with_parent = True

    def start_driver(self, supervisor: Process, spec: LaunchSpec, claim: ProcessRecord) -> Process:
        name = f"{spec.instance}/{claim.generation}"
        driver = Process(name, supervisor.machine, parent=supervisor, dies_with_parent=self.dies_with_parent)
        supervisor.children.append(driver)
        self.started.append(driver)
        self.scheduler.start(driver, name, lambda: self._obey(driver, spec.instance))
        return driver

    def _obey(self, driver: Process, instance: str) -> None:
        child = Process(f"{driver.name} child", driver.machine, parent=driver)
        driver.children.append(child)
        driver.on_nudge = lambda: self.nudged.add(driver.name)
        self.ready[driver.name] = (driver, child)
        done = 0
        while True:
            for line in self.orders.get(instance, [])[done:]:
                done += 1
                verb, _, rest = line.partition(" ")
                if verb == "print":
                    driver.printed = rest
                if verb == "exit":
                    self.scheduler.kill(driver, int(rest))
            self.scheduler.sleep(_POLL_S)


class Place:
    """A place for the contracts, in which each call of a runner is made by its own process and the simulation runs
    until that call returns.
    """

    job = JOB

    def __init__(self, world: Drivers, kind: type[SimulatedRunner | SimulatedPods | SimulatedContainers]) -> None:
        self._world, self._scheduler, self._kind = world, world.scheduler, kind
        self.machine = world.table.machine()
        self.runner = self.new_runner()

    def new_runner(self, *, machine: Machine | None = None) -> Any:
        place = self

        class Called(self._kind):  # type: ignore[name-defined,misc]
            def launch(self, *given: Any) -> None:
                place.call(lambda: super(Called, self).launch(*given))

            def observe(self, *given: Any) -> Liveness:
                return place.call(lambda: super(Called, self).observe(*given))

            def observe_many(self, *given: Any) -> Any:
                return place.call(lambda: super(Called, self).observe_many(*given))

            def notify(self, *given: Any) -> None:
                place.call(lambda: super(Called, self).notify(*given))

            def kill(self, *given: Any) -> None:
                place.call(lambda: super(Called, self).kill(*given))

        given = {"machine": machine} if machine is not None else {}
        return Called(self._world, self._world.store_of(None), **given)

    def call(self, act: Callable[[], Any]) -> Any:
        """Run one call until it finishes, and return its result or raise its error."""
        return self._call_all([act])[0]

    def _call_all(self, acts: list[Callable[[], Any]]) -> list[Any]:
        if self._scheduler.current is not None:
            return [act() for act in acts]
        told: list[Any] = [None] * len(acts)
        errors: list[Exception] = []

        def run(number: int) -> None:
            try:
                told[number] = acts[number]()
            except Exception as error:
                errors.append(error)

        callers = [
            self._scheduler.start(
                Process(f"caller {number}", "m1"), f"caller {number}", lambda number=number: run(number)
            )
            for number in range(len(acts))
        ]
        self.wait_for("the calls", lambda: all(caller.done for caller in callers))
        if errors:
            raise errors[0]
        return told

    def launch_at_once(self, times: int) -> None:
        self._call_all([lambda: self.new_runner().launch(self.spec(), {})] * times)

    def spec(self, instance: str = "one", **changes: Any) -> LaunchSpec:
        values: dict[str, Any] = {
            "instance": instance,
            "job": JOB,
            "release": "r0001",
            "mode": LaunchMode.STANDBY,
            "bundle": "0" * 64,
            "entry": "sales.py",
            "params": {},
            "conf": {},
            "checkpoints": self._world.settings.checkpoints,
            "lease_s": 2.0,
        }
        return LaunchSpec(**(values | changes))

    def control(self, instance: str = "one") -> Control:
        return Control(self._world.store_of(None), JOB, instance)

    def order(self, text: str, instance: str = "one") -> None:
        self._world.orders[instance] = text.splitlines()

    def pids(self, instance: str = "one", generation: int = 1) -> tuple[int, int]:
        name = f"{instance}/{generation}"
        driver, child = self.wait_for(name, lambda: self._world.ready.get(name))
        return self._world.table.pid(driver), self._world.table.pid(child)

    def supervisor(self, instance: str = "one") -> int:
        return int(self.wait_for("a claim", lambda: self.control(instance).processes())[0].pid)

    def starts(self) -> int:
        return len([each for each in self._world.started if each.name.startswith("one/")])

    def strike(self, move: Move) -> None:
        self._world.cluster.strike(move)

    def has_run(self) -> bool:
        return bool(self._world.started)

    def nudged(self) -> bool:
        return "one/1" in self._world.nudged

    def is_running(self, pid: int) -> bool:
        return self._world.table.get(pid).alive

    def kill(self, pid: int) -> None:
        self._scheduler.kill(self._world.table.get(pid), -9)

    def freeze(self, pid: int) -> None:
        self._world.table.get(pid).frozen = True

    def wait_for(self, what: str, look: Callable[[], Any]) -> Any:
        end = self._scheduler.now_s + _LONGEST_S
        while not (found := look()):
            assert self._scheduler.now_s < end, f"{what}: not within {_LONGEST_S:g} s"
            self._scheduler.run(self._scheduler.now_s + _POLL_S)
        return found

    def life(self, instance: str = "one") -> Life:
        return self.runner.observe(JOB, instance).life

    def wait_dead(self, instance: str = "one") -> str:
        self.wait_for(f"the death of {instance}", lambda: self.life(instance) is Life.DEAD)
        return self.runner.observe(JOB, instance).why


@pytest.fixture
def world() -> Iterator[World]:
    """A simulated machine on which nothing runs."""
    with Drivers.opened(1) as opened:
        yield opened


@pytest.fixture
def place(world: Drivers) -> Place:
    return Place(world, SimulatedRunner)


class TestSimulatedRunner(RunnerContract, MachineContract):
    """The simulated local runner keeps the contracts, except the one on secrets: a simulated process has no
    environment.
    """


@pytest.fixture
def pods() -> Iterator[Place]:
    """A simulated Kubernetes cluster in which nothing runs."""
    with Drivers.opened(1, drivers=KUBERNETES) as opened:
        yield Place(opened, SimulatedPods)


class TestSimulatedPods(RunnerContract):
    """The simulated Kubernetes runner, with simulated kubelets, keeps the runner contract, except for secrets."""

    @pytest.fixture
    def place(self, pods: Place) -> Place:
        return pods


@pytest.fixture
def containers() -> Iterator[Place]:
    """A simulated YARN cluster in which nothing runs."""
    with Drivers.opened(1, drivers=YARN) as opened:
        yield Place(opened, SimulatedContainers)


class TestSimulatedContainers(RunnerContract):
    """The simulated YARN runner, with simulated ResourceManager and NodeManagers, keeps the runner contract, except for
    secrets.
    """

    @pytest.fixture
    def place(self, containers: Place) -> Place:
        return containers


@pytest.mark.parametrize(
    ("kind", "which", "why"),
    [
        ("node-cut", 0.9, "no longer reports"),
        ("pod-forced", 0.0, "any more. That does not prove an end"),
        ("pod-lost", 0.0, "has lost track of"),
    ],
)
def test_a_pod_whose_end_is_not_reported_is_unknown(pods: Place, kind: str, which: float, why: str) -> None:
    """A pod whose end no kubelet reports is unknown: its node is cut off, its kubelet has lost track of it, or someone
    removed the pod by force.
    """
    pods.runner.launch(pods.spec(), {})
    pods.pids()
    pods.wait_for("the kubelet's report", lambda: "runs on" in pods.runner.observe(JOB, "one").why)
    for machine in ("m1", "m2"):
        pods.strike(Move(kind=kind, pause_s=0.0, which=which, seconds=300.0, machine=machine))
    told = pods.wait_for("doubt", lambda: (seen := pods.runner.observe(JOB, "one")).life is Life.UNKNOWN and seen.why)
    assert why in told


_LOST = [
    ("silent", 150.0, [("node-cut", 0.0)], "no NodeManager has reported how"),
    ("listed", 150.0, [("node-cut", 0.9)], "no NodeManager has reported how"),
    ("restarted", 45.0, [("node-cut", 0.9), ("manager-restart", 0.0)], "no NodeManager has reported how"),
    ("forgotten", 45.0, [("node-cut", 0.9), ("application-forgotten", 0.0)], "has no record of"),
]


@pytest.mark.parametrize(("cut_s", "faults", "why"), [case[1:] for case in _LOST], ids=[case[0] for case in _LOST])
def test_a_container_whose_end_is_not_reported_is_unknown(
    containers: Place, cut_s: float, faults: list[tuple[str, float]], why: str
) -> None:
    """A container on a lost node is unknown and its driver still runs, although the ResourceManager counts the
    application as failed. Once the node is back, the processes stop and their end is proven.
    """
    told = _unknown_after(containers, faults, cut_s)
    assert why in told
    driver, _ = containers.pids()
    assert containers.is_running(driver)
    containers.wait_dead()
    assert not containers.is_running(driver)


def test_the_suite_detects_a_lost_node_that_counts_as_an_end(
    containers: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: if the exit code that the ResourceManager assigns to a lost container counts as that of a
    program, the test of unreported ends fails.
    """
    monkeypatch.setattr(yarn_application, "_tells_an_end", lambda _: True)
    monkeypatch.setattr(yarn_application, "_has_outlived", lambda *_: True)
    with pytest.raises(AssertionError):
        _unknown_after(containers, [("node-cut", 0.9), ("manager-restart", 0.0)], 45.0)


def _unknown_after(containers: Place, faults: list[tuple[str, float]], cut_s: float) -> str:
    """Return the reason why an instance is unknown after these faults; fail if it counts as dead before."""
    containers.runner.launch(containers.spec(), {})
    containers.pids()
    containers.wait_for("the report", lambda: "is RUNNING" in containers.runner.observe(JOB, "one").why)
    for kind, which in faults:
        for machine in ("m1", "m2"):
            containers.strike(Move(kind=kind, pause_s=0.0, which=which, seconds=cut_s, machine=machine))

    def doubt() -> str:
        seen = containers.runner.observe(JOB, "one")
        assert seen.life is not Life.DEAD, seen.why
        return seen.why if seen.life is Life.UNKNOWN else ""

    return str(containers.wait_for("doubt", doubt))


def test_a_killed_application_is_dead_once_its_node_has_ended_it(containers: Place) -> None:
    """A killed application is dead only once its NodeManager no longer lists its container; the ResourceManager reports
    KILLED at once and never an exit code.
    """
    containers.runner.launch(containers.spec(), {})
    driver, _ = containers.pids()
    containers.strike(Move(kind="application-killed", pause_s=0.0, which=0.0))
    assert containers.life() is not Life.DEAD or not containers.is_running(driver)
    assert "no longer listed by its NodeManager" in containers.wait_dead()
    assert not containers.is_running(driver)


def test_a_deleted_pod_ends_and_its_end_is_proven(pods: Place) -> None:
    """A deleted pod stops with a proven exit code 137, because its finalizer keeps the report until it is recorded;
    releasing its resources then removes the pod.
    """
    pods.runner.launch(pods.spec(), {})
    driver, _ = pods.pids()
    pods.strike(Move(kind="pod-deleted", pause_s=0.0, which=0.0, seconds=10.0))
    assert "has ended with code 137" in pods.wait_dead()
    assert not pods.is_running(driver)
    pods.call(lambda: pods.new_runner().release_resources(JOB, "one"))
    assert pods.life() is Life.UNKNOWN


class WithoutLooking(SimulatedRunner):
    """A runner that starts a supervisor without checking what already runs, and returns once that supervisor has read
    the claims.
    """

    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        Control(self._store, spec.job, spec.instance).write_launch(spec)
        self._start(spec, secrets)
        self._world.scheduler.sleep(2.0)


def test_a_claim_alone_prevents_a_second_driver(world: Drivers) -> None:
    """Of several supervisors that start at once without checking for others, the claim lets exactly one start a
    driver.
    """
    RunnerContract().test_launching_twice_starts_one_tree(Place(world, WithoutLooking))


def test_the_suite_sees_a_second_driver(world: Drivers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a supervisor that continues although a different one holds the claim starts a second driver,
    and the contract's test fails.
    """
    claim = Supervisor._claim

    def claim_anyway(self: Supervisor, generation: int) -> None:
        try:
            claim(self, generation)
        except Superseded:
            self._claimed = self._control.read_process(generation)

    monkeypatch.setattr(Supervisor, "_claim", claim_anyway)
    place = Place(world, WithoutLooking)
    with pytest.raises(AssertionError):
        RunnerContract().test_launching_twice_starts_one_tree(place)
    assert place.starts() > 1


def test_the_suite_sees_a_kill_that_leaves_the_claim_free(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: if a kill does not bar the claim, an instance that was killed before its claim starts later,
    and the contract's test fails.
    """
    monkeypatch.setattr(local_process, "bar", lambda *_: [])
    with pytest.raises(AssertionError):
        RunnerContract().test_what_is_killed_before_its_claim_never_starts(place)


def test_the_suite_sees_a_kill_that_leaves_a_pods_claim_free(pods: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: if killing a pod neither bars its claim nor removes it, the pod starts later, and the
    contract's test fails.
    """
    monkeypatch.setattr(container_runner, "bar", lambda *_: [])
    monkeypatch.setattr(SimulatedPods, "_end", lambda *_: None)
    with pytest.raises(AssertionError):
        RunnerContract().test_what_is_killed_before_its_claim_never_starts(pods)


@pytest.mark.parametrize("whom", [(0,), (2,), (0, 1, 2)], ids=["supervisor", "child", "all"])
def test_the_suite_detects_that_a_frozen_process_counts_as_dead(
    place: Place, monkeypatch: pytest.MonkeyPatch, whom: tuple[int, ...]
) -> None:
    """Negative control: on a machine whose process table hides frozen processes, the contract's test of a frozen
    process fails.
    """
    find = SimulatedProcessTable.find

    def find_running(self: SimulatedProcessTable, *given: Any) -> Any:
        return [process for process in find(self, *given) if not process.frozen]

    monkeypatch.setattr(SimulatedProcessTable, "find", find_running)
    with pytest.raises(AssertionError):
        RunnerContract().test_a_frozen_process_is_alive_and_can_be_killed(place, whom)


def test_the_suite_sees_a_driver_that_outlives_its_supervisor(place: Place, world: Drivers) -> None:
    """Negative control: on a machine that kills a supervisor without its driver, the contract's test finds the
    surviving driver.
    """
    world.dies_with_parent = False
    with pytest.raises(AssertionError, match="the driver's end: not within"):
        MachineContract().test_a_driver_does_not_outlive_its_supervisor(place)


def test_the_suite_sees_a_launch_that_another_machine_does_not_record(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: if a launch does not record its machine, a driver that is starting would count as never
    started, and the contract's tests fail.
    """
    monkeypatch.setattr(SimulatedRunner, "_write_launcher", lambda *_: None)
    for test in (
        MachineContract.test_what_runs_elsewhere_is_unknown,
        MachineContract.test_an_instance_launched_on_two_machines_is_unknown_to_both,
    ):
        with pytest.raises(AssertionError):
            test(MachineContract(), place)


def test_an_instance_whose_observation_fails_is_unknown(place: Place, world: Drivers) -> None:
    """If an observation fails, the instance is unknown: it counts neither as alive nor as dead."""
    place.runner.launch(place.spec(), {})
    place.pids()
    world.unseen = 1.0
    assert place.life() is Life.UNKNOWN
    assert place.runner.observe_many([(JOB, "one")])[JOB, "one"].life is Life.UNKNOWN
