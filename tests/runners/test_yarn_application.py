"""Tests drivers in YARN containers on a real ResourceManager and NodeManager: the runner contract, and which reports of
YARN prove that a driver has stopped.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from harness import hadoop_process
from harness.waiting import wait_for
from harness.yarn_server import YarnServer, yarn_server
from streamkeeper.errors import InvalidInput, PermanentError, TemporaryError
from streamkeeper.model.protocol.driver_messages import LOCAL
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.runner_kinds.yarn_kind import YARN, Application
from streamkeeper.runners import yarn_application
from streamkeeper.runners.by_launch import LaunchedRunner
from streamkeeper.runners.contract import Life
from streamkeeper.runners.local_process import LocalProcessRunner
from streamkeeper.runners.yarn_application import YarnRunner
from streamkeeper.runners.yarn_rest import ResourceManager
from streamkeeper.system.hadoop_conf import hadoop_user
from tests.contracts.runner_contract import RunnerContract, SecretsContract
from tests.runners.launching import JOB, Place, end, is_running

pytestmark = [pytest.mark.hdfs, pytest.mark.storage, pytest.mark.timeout(300)]

GIVEN_UP_S = 20.0
SECRET = {"STREAMKEEPER_SECRET_PASSWORD": "hunter2 & co"}


@pytest.fixture(scope="module")
def yarn() -> Iterator[YarnServer]:
    if not hadoop_process.has_jars():
        pytest.skip("no Hadoop jars (make connectors)")
    home = Path(tempfile.mkdtemp(prefix="streamkeeper-yarn-"))
    with yarn_server(home / "yarn", SECRET, expiry_s=GIVEN_UP_S, limits_memory=True) as running:
        yield running
    shutil.rmtree(home, ignore_errors=True)


class YarnPlace(Place):
    """The place of the runner contract, with instances that run on YARN."""

    def __init__(self, folder: Path, yarn: YarnServer) -> None:
        self.yarn = yarn
        super().__init__(folder)

    def new_runner(self, **given: object) -> YarnRunner:  # type: ignore[override]
        environ = {**os.environ, **self.yarn.environment}
        return YarnRunner(self.store, self.settings, environ, driver=self.command, **given)  # type: ignore[arg-type]

    def application(self, instance: str = "one") -> str:
        found = self.control(instance).read_place(Application)
        assert found is not None
        return found.id

    def container(self, instance: str = "one") -> Path:
        """Return the folder in which YARN keeps the output of an instance's container."""
        return next(self.yarn.home.glob(f"containers/{self.application(instance)}/container_*"))

    def log(self, instance: str = "one") -> str:
        return (self.container(instance) / "driver.log").read_text()


@pytest.fixture
def place(tmp_path: Path, yarn: YarnServer) -> Iterator[YarnPlace]:
    place = YarnPlace(tmp_path, yarn)
    yield place
    place.close()


class TestYarnRunner(RunnerContract, SecretsContract):
    """The YARN runner keeps the runner contract and the contract on secrets."""


def running(place: YarnPlace, instance: str = "one") -> tuple[int, int, int]:
    """Launch an instance and return the pids of its supervisor, driver and child."""
    place.runner.launch(place.spec(instance), {})
    return (place.supervisor(instance), *place.pids(instance))


def says(place: YarnPlace) -> str:
    """Return the state of the application that the ResourceManager reports."""
    return str(place.yarn.ask(f"apps/{place.application()}")["app"]["state"])


def test_yarn_drops_an_application_once_its_application_master_is_killed(place: YarnPlace) -> None:
    """An application that sends heartbeats outlives YARN's expiry time; once its ApplicationMaster process is killed,
    YARN drops the application and the driver is stopped in order.
    """
    supervisor, driver, child = running(place)
    wait_for("its registration", lambda: says(place) == "RUNNING")
    time.sleep(GIVEN_UP_S * 1.5)
    assert says(place) == "RUNNING"
    assert all(map(is_running, (supervisor, driver, child)))
    telling = [pid for pid in psutil.pids() if "ApplicationMaster" in arguments(pid) and parent(pid) == supervisor]
    end(telling[0])
    assert "after every process of its tree had exited" in place.wait_dead()
    assert not any(map(is_running, (driver, child)))
    assert "dropped this application" in place.log()


def arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def parent(pid: int) -> int:
    return psutil.Process(pid).ppid()


def test_an_application_on_a_frozen_node_is_unknown_although_yarn_reports_killed(place: YarnPlace) -> None:
    """While its NodeManager is frozen, an application is reported as KILLED at once although its processes still run,
    so the instance is unknown; the kill takes effect once the NodeManager resumes.

    Negative control: the ResourceManager's state alone would report the driver as dead.
    """
    pids = running(place)
    wait_for("its registration", lambda: says(place) == "RUNNING")
    place.yarn.freeze_node()
    try:
        place.runner.kill(JOB, "one")
        withdraw(place)
        wait_for("KILLED", lambda: says(place) == "KILLED")
        assert all(map(is_running, pids))
        seen = place.runner.observe(JOB, "one")
        assert seen.life is Life.UNKNOWN
        assert "does not prove an end" in seen.why
    finally:
        place.yarn.thaw_node()
    wait_for("the end of all", lambda: not any(map(is_running, pids)))


def withdraw(place: YarnPlace) -> None:
    """Kill the application, as ``yarn application -kill`` does."""
    ResourceManager(place.yarn.http, hadoop_user(os.environ)).withdraw(place.application())


def test_a_driver_is_dead_once_its_lost_node_drops_the_container(
    place: YarnPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NodeManager that was frozen until it counted as lost resumes and kills its container, whose frozen processes
    record no exit. The driver is dead only once that same NodeManager no longer lists the container.
    """
    monkeypatch.setattr(yarn_application, "_SKEW_MS", 0)
    pids = running(place)
    wait_for("its registration", lambda: says(place) == "RUNNING")
    place.yarn.freeze_node()
    try:
        for pid in pids:
            end(pid, signal.SIGSTOP)
        wait_for("FAILED", lambda: says(place) == "FAILED", timeout_s=120)
        assert all(map(is_running, pids))
    finally:
        place.yarn.thaw_node()
    while place.life() is not Life.DEAD:
        time.sleep(0.01)
    assert not any(map(is_running, pids))
    assert place.control().read_exit() is None
    assert "has run since before the container started" in place.runner.observe(JOB, "one").why


def test_a_restarted_node_without_the_container_does_not_prove_a_driver_dead(place: YarnPlace) -> None:
    """A killed and restarted NodeManager lists no container and the application is FAILED while the driver still runs:
    YARN alone cannot prove its end, but a check on the driver's own machine can.

    Negative control: the ResourceManager's state and the NodeManager's 404 agree while the driver still runs.
    """
    pids = running(place)
    wait_for("its registration", lambda: says(place) == "RUNNING")
    place.yarn.replace_node()
    wait_for("FAILED", lambda: says(place) in ("FAILED", "KILLED"), timeout_s=240)
    assert all(map(is_running, pids))
    assert place.life() is Life.UNKNOWN
    local = LocalProcessRunner(place.store, place.settings, driver=place.command)
    on_its_machine = LaunchedRunner(place.store, {LOCAL: lambda: local, YARN: lambda: place.runner}, YARN)
    assert on_its_machine.observe(JOB, "one").life is Life.ALIVE
    for pid in pids:
        end(pid)
    wait_for("the end of all", lambda: not any(map(is_running, pids)))
    assert place.life() is Life.UNKNOWN
    assert "two scans of /proc" in on_its_machine.observe(JOB, "one").why


def test_a_resource_manager_without_answer_or_record_proves_no_driver_dead(place: YarnPlace) -> None:
    """A ResourceManager that is down, or a new one without a record of the application, never makes a driver count as
    dead while one of its processes lives.

    The node then stops the container that the new ResourceManager does not list, and only the supervisor's exit record
    proves the end.
    """
    pids = running(place)
    wait_for("its registration", lambda: says(place) == "RUNNING")
    nobody = YarnPlace.new_runner(place)
    nobody._managers[place.yarn.http] = ResourceManager("http://127.0.0.1:1", "nobody")
    seen = nobody.observe(JOB, "one")
    assert (seen.life, "does not answer" in seen.why) == (Life.UNKNOWN, True)
    with pytest.raises(TemporaryError, match="does not answer"):
        nobody.kill(JOB, "one")
    place.yarn.replace_manager()
    lives = set()
    deadline = time.monotonic() + 60
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        life = place.life()
        if all(map(is_running, pids)):
            lives.add(life)
    assert Life.DEAD not in lives
    assert not any(map(is_running, pids)), "the node was to end what its manager does not know"
    assert place.life() is (Life.DEAD if place.control().read_exit() is not None else Life.UNKNOWN)
    place.started.clear()


def test_a_driver_is_not_retried_in_a_deleted_container_directory(place: YarnPlace) -> None:
    """A restarted NodeManager deletes the container's directory: a driver that fails afterwards is not retried, and its
    exit record states the reason.
    """
    _, driver, _ = running(place)
    wait_for("its registration", lambda: says(place) == "RUNNING")
    place.yarn.replace_node()
    wait_for("the directory's end", lambda: not Path(f"/proc/{driver}/cwd").resolve().is_dir())
    if is_running(driver):
        end(driver)
    assert "after every process of its tree had exited" in place.wait_dead()
    end_ = place.control().read_exit()
    assert end_ is not None
    assert "its container's directory was removed" in end_.error or "signal 15" in end_.error
    assert len(place.control().processes()) == 1


def test_a_killed_container_shell_does_not_prove_its_instance_dead(place: YarnPlace) -> None:
    """When only the shell that a NodeManager waits for is killed, the instance does not count as dead while a process
    of its tree lives.
    """
    pids = running(place)
    wait_for("its registration", lambda: says(place) == "RUNNING")
    end(parent(pids[0]))
    while place.life() is not Life.DEAD:
        time.sleep(0.01)
    assert not any(map(is_running, pids))


def test_an_application_that_waits_for_memory_is_alive_and_can_be_killed(place: YarnPlace) -> None:
    """An application that needs more memory than the cluster has left is alive and reported as ACCEPTED; once killed it
    is dead and can never start.
    """
    place.runner.launch(place.spec(conf={"spark.driver.memory": "6g"}), {})
    place.runner.launch(place.spec("two", conf={"spark.driver.memory": "6g"}), {})
    place.pids()
    assert place.life("two") is Life.ALIVE
    assert "is ACCEPTED" in why(place, "two")
    place.runner.kill(JOB, "two")
    assert place.life("two") is Life.DEAD
    assert "before it started" in why(place, "two")


HOG = f"spawn {sys.executable} -c b = b'x' * 700_000_000; import time; time.sleep(300)"
SMALL = {"spark.driver.memory": "64m", "spark.driver.memoryOverhead": "320m"}


def test_a_container_killed_for_its_memory_has_the_out_of_memory_fault(place: YarnPlace) -> None:
    """A driver whose container the NodeManager kills for its memory is dead with the fault ``OUT_OF_MEMORY``, whether
    or not its supervisor could still record the signal.

    Negative control: a driver that is killed by the same signal for another reason has no fault.
    """
    place.runner.launch(place.spec(conf=SMALL), {})
    pids = (place.supervisor(), *place.pids())
    place.runner.launch(place.spec("two", conf=SMALL), {})
    place.pids("two")
    place.order(HOG)
    place.wait_dead()
    seen = place.runner.observe(JOB, "one")
    assert (seen.fault, any(map(is_running, pids))) == (Fault.OUT_OF_MEMORY, False)
    assert "exceeding its memory limit: " in seen.why
    place.runner.kill(JOB, "two")
    place.wait_dead("two")
    assert place.runner.observe(JOB, "two").fault is None


def why(place: YarnPlace, instance: str) -> str:
    return place.runner.observe(JOB, instance).why


def test_a_supervisor_that_cannot_start_is_dead_with_its_reason(place: YarnPlace) -> None:
    """A supervisor that cannot start because its node lacks the store is dead without a claim, and the last line of its
    output is reported as the reason.
    """
    elsewhere = replace(place.settings, store=f"{place.folder}/elsewhere")
    runner = YarnRunner(place.store, elsewhere, {**os.environ, **place.yarn.environment}, driver=place.command)
    runner.launch(place.spec(), {})
    wait_for("its end", lambda: runner.observe(JOB, "one").life is Life.DEAD)
    assert "the supervisor had claimed nothing: " in runner.observe(JOB, "one").why
    assert "was never launched" in runner.observe(JOB, "one").why


def test_a_driver_larger_than_any_node_allows_is_refused_with_yarns_reason(place: YarnPlace) -> None:
    """A driver that requests more memory than any node allows is refused at once with YARN's own message, and the
    instance is absent.
    """
    with pytest.raises(PermanentError, match="Requested more memory than configured max"):
        place.runner.launch(place.spec(conf={"spark.driver.memory": "1t"}), {})
    assert place.life() is Life.ABSENT


def test_a_secret_that_only_airflow_knows_is_refused(place: YarnPlace) -> None:
    """The YARN runner refuses a secret that only Airflow can resolve, because a driver on a node cannot query Airflow,
    and submits nothing.
    """
    with pytest.raises(InvalidInput, match="resolves its own"):
        place.runner.check_place(["secret://env/PASSWORD", "secret://airflow/warehouse/password"])
    place.runner.check_place(["secret://env/PASSWORD"])
    with pytest.raises(InvalidInput, match="resolves its own"):
        place.runner.launch(place.spec(), {"secret://airflow/warehouse/password": "hunter2"})
    assert place.control().read_place(Application) is None
    place.started.clear()


def test_a_setting_that_a_shell_would_expand_is_refused(place: YarnPlace) -> None:
    """A setting such as ``/opt/$(reboot)`` is refused, because a NodeManager's script sets variables in double quotes
    and the shell would expand it.
    """
    strange = replace(place.settings, jars="/opt/$(reboot)")
    runner = YarnRunner(place.store, strange, {**os.environ, **place.yarn.environment}, driver=place.command)
    with pytest.raises(InvalidInput, match="STREAMKEEPER_JARS"):
        runner.launch(place.spec(), {})
    assert place.life() is Life.ABSENT
