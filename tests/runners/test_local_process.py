"""Tests driver process trees on this machine: the runner contracts, and errors that are specific to process trees."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.processes import killed_after
from harness.waiting import wait_for
from streamkeeper.errors import InvalidInput, TemporaryError
from streamkeeper.model.protocol.driver_messages import DriverState
from streamkeeper.model.records.installation_record import InstallationRecord
from streamkeeper.runners import local_process, process_tree
from streamkeeper.runners.contract import Life
from streamkeeper.runners.local_process import LocalProcessRunner
from streamkeeper.runners.process_tree import find_tree, mark, read_process
from tests.contracts.machine_contract import MachineContract, record
from tests.contracts.runner_contract import RunnerContract, SecretsContract
from tests.runners.launching import JOB, Place, end, is_running

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


class TestLocalProcessRunner(RunnerContract, SecretsContract, MachineContract):
    """The runner, secrets and machine contracts for the local runner."""


def test_a_nudge_does_not_kill_a_driver_that_is_not_ready_for_it(place: Place) -> None:
    """A driver that has no handler for SIGUSR1 yet is not sent the signal, which would kill it."""
    place.order("unready")
    place.runner.launch(place.spec(), {})
    driver, _ = place.pids()
    place.runner.notify(JOB, "one")
    place.order("print still here")
    wait_for("a line in the log", lambda: "still here" in place.log())
    assert is_running(driver)


def test_a_process_whose_mark_cannot_be_read_is_found_by_its_session(place: Place) -> None:
    """A process that overwrites its environment is still found by its session, counts as alive and is killed with the
    instance. Negative control: the search by the mark alone misses it.
    """
    place.runner.launch(place.spec(), {})
    supervisor, (driver, child) = place.supervisor(), place.pids()
    renamed = "import setproctitle, time; setproctitle.setproctitle('x' * 5000); print('renamed', flush=True); "
    code = f"{renamed}time.sleep(300)"
    # Joins the driver's session the way its own children do: started by a process in it.
    place.order(f"spawn {sys.executable} -c {code}")
    wait_for("a process that renamed itself", lambda: "renamed" in place.log())
    other = place.spawned()
    for each in (supervisor, driver, child):
        end(each)
    wait_for("the end of the others", lambda: not any(is_running(each) for each in (supervisor, driver, child)))
    assert is_running(other)
    assert find_tree(mark(JOB, "one", store=place.store.url)) == []
    assert place.life() is Life.ALIVE
    place.runner.kill(JOB, "one")
    place.wait_dead()
    assert not is_running(other)


def test_a_reused_pid_does_not_count_as_the_instance(place: Place) -> None:
    """A living process with a recorded pid but a different start time does not count as the instance, and is not
    killed.
    """
    other = subprocess.Popen(["/bin/sleep", "300"], start_new_session=True)
    try:
        found = read_process(other.pid)
        assert found is not None
        place.control().write_launch(place.spec())
        place.control().write_process(record(place.machine, pid=other.pid, started=found.started - 1))
        assert place.life() is Life.DEAD
        place.runner.kill(JOB, "one")
        assert is_running(other.pid)
    finally:
        other.kill()
        other.wait()


LAUNCHER = """
import sys, time
from pathlib import Path
from tests.runners.launching import Place
class Again(Place):
    def __post_init__(self):
        from streamkeeper.model.settings.settings import Settings
        from streamkeeper.stores.local import LocalStore
        f = self.folder
        self.store = LocalStore(f"{f}/store")
        self.settings = Settings(store=f"{f}/store", checkpoints=f"{f}/c", jobs=f"{f}/j", home=f"{f}/home")
        self.runner = self.new_runner()
place = Again(Path(sys.argv[1]))
place.runner.launch(place.spec(job=sys.argv[2]), {})
print("launched", flush=True)
time.sleep(300)
"""


def test_an_instance_survives_its_launchers_whole_process_group(place: Place) -> None:
    """A driver survives when the process group of its launcher is killed, as in a restart of Airflow, and is not a
    child of the launcher.
    """
    place.started.append("one")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(place.folder), JOB],
        stdout=subprocess.PIPE,
        env=environ,
        cwd=ROOT,
        start_new_session=True,
    )
    with killed_after(launcher):
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == b"launched\n"
        pids = [place.supervisor(), *place.pids()]
        assert not [each for each in pids if (found := read_process(each)) and found.parent == launcher.pid]
        assert os.getsid(pids[1]) != os.getsid(launcher.pid)
        os.killpg(launcher.pid, signal.SIGHUP)
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()
    assert all(is_running(each) for each in pids)
    place.order("exit 0")
    place.wait_dead()
    assert place.control().read_exit() is not None


def test_a_supervisor_that_receives_sigterm_kills_its_tree_and_records_it(place: Place) -> None:
    """A supervisor that receives SIGTERM kills its driver and the driver's child, and records an exit that names the
    signal.
    """
    place.runner.launch(place.spec(), {})
    supervisor, (driver, child) = place.supervisor(), place.pids()
    end(supervisor, signal.SIGTERM)
    place.wait_dead()
    assert not is_running(driver)
    assert not is_running(child)
    end_ = place.control().read_exit()
    assert end_ is not None
    assert (end_.state, end_.error) == (DriverState.FAILED, "terminated by signal 15")
    assert (end_.signal, end_.by_signal) == (15, True)


def test_a_supervisor_exits_although_the_store_is_missing(place: Place) -> None:
    """A supervisor that cannot record its driver's exit because the store is missing gives up after a while, and the
    instance is proven dead once the store is back.
    """
    place.runner.launch(place.spec(lease_s=0.1), {})
    place.pids()
    store, away = place.folder / "store", place.folder / "away"
    store.rename(away)
    place.order("exit 0")
    wait_for("a word in the log", lambda: "could not be recorded" in place.log())
    away.rename(store)
    place.wait_dead()
    assert place.control().read_exit() is None


def test_a_driver_gets_no_more_environment_than_it_needs(place: Place) -> None:
    """A driver receives the store's credentials and its own variables, but no secrets from the launcher's
    environment.
    """
    environ = {"PATH": os.environ["PATH"], "AWS_REGION": "x", "AIRFLOW__CORE__FERNET_KEY": "k", "DB_PASSWORD": "p"}
    place.new_runner(environ=environ).launch(place.spec(), {})
    driver, child = place.pids()
    for pid in (driver, child):
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        given = dict(each.split("=", 1) for each in entries if each)
        assert given["AWS_REGION"] == "x"
        assert given["STREAMKEEPER_INSTANCE"] == f"{JOB}/one"
        assert given["STREAMKEEPER_GENERATION"] == "1"
        assert given["STREAMKEEPER_STORE"] == place.settings.store
        assert given["STREAMKEEPER_JARS"] == place.settings.jars != ""
        assert not {"AIRFLOW__CORE__FERNET_KEY", "DB_PASSWORD"} & given.keys()


def test_a_driver_program_that_is_missing_is_named(place: Place) -> None:
    """A launch with a missing driver program is refused with its path, and no instance is recorded."""
    runner = LocalProcessRunner(place.store, place.settings, driver=("/no/such/python",))
    with pytest.raises(InvalidInput, match="/no/such/python"):
        runner.launch(place.spec(), {})
    assert place.life() is Life.ABSENT


@pytest.mark.parametrize("installed", [False, True])
def test_a_launch_names_the_interpreter_of_its_driver(
    place: Place, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch runs the interpreter of its spec with this Streamkeeper on its path, unless Streamkeeper is installed
    among packages, which would hide the interpreter's own.
    """
    python, said = place.folder / "python", place.folder / "said"
    python.write_text(f'#!/bin/sh\necho "$@ in ${{PYTHONPATH-nothing}}" > {said}.draft; mv {said}.draft {said}\n')
    python.chmod(0o700)
    if installed:
        (place.folder / "site/pyspark").mkdir(parents=True)
        (place.folder / "site/streamkeeper").symlink_to(ROOT / "plugins/streamkeeper")
        monkeypatch.setattr(local_process, "PACKAGES", place.folder / "site")
    runner = LocalProcessRunner(place.store, place.settings)
    runner.launch(place.spec(python=str(python), restart_budget=0), {})
    wait_for("the driver", said.exists)
    packages = "nothing" if installed else str(ROOT / "plugins")
    assert said.read_text() == f"-m streamkeeper.driver {JOB} one 1 in {packages}\n"
    place.wait_dead()


def test_a_driver_that_cannot_be_executed_fails_the_instance(place: Place) -> None:
    """A driver program that cannot be executed fails the instance, and the recorded exit states why."""
    program = place.folder / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o700)
    runner = LocalProcessRunner(place.store, place.settings, driver=(str(program),))
    runner.launch(place.spec(restart_budget=0), {})
    place.wait_dead()
    end_ = place.control().read_exit()
    assert end_ is not None
    assert "cannot be started" in end_.error


def test_each_launch_resolves_the_master_of_an_airflow_connection(place: Place) -> None:
    """Each launch resolves the Spark master from the Airflow connection anew, and a process that cannot read
    connections refuses the launch.
    """
    program, said = place.folder / "program", place.folder / "said"
    program.write_text(f'#!/bin/sh\necho "$STREAMKEEPER_MASTER" > {said}.draft; mv {said}.draft {said}\n')
    program.chmod(0o700)
    settings = replace(place.settings, master="airflow://cluster", checkpoints="s3a://bucket/checkpoints")
    masters: dict[str, str] = {}
    runner = LocalProcessRunner(
        place.store, settings, driver=(str(program),), resolve_master=lambda name: masters[name]
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        masters["cluster"] = f"spark://127.0.0.1:{server.getsockname()[1]}"
        runner.check_place()
    with pytest.raises(TemporaryError, match=f"the master {masters['cluster']} does not answer"):
        runner.check_place()
    runner.launch(place.spec(restart_budget=0), {})
    wait_for("the driver", said.exists)
    assert said.read_text().strip() == masters["cluster"]
    place.wait_dead()
    told = "STREAMKEEPER_MASTER=airflow://cluster names an Airflow connection, which only Airflow's tasks can read"
    with pytest.raises(InvalidInput, match=told):
        LocalProcessRunner(place.store, settings).launch(place.spec("two"), {})
    assert place.life("two") is Life.ABSENT


def test_a_supervisor_is_light(place: Place) -> None:
    """A supervisor imports neither Spark, pandas, boto3, Airflow, SQLAlchemy nor pyarrow."""
    code = (
        "import sys, streamkeeper.runners.supervisor, streamkeeper.stores.local; "
        "print(sorted({'pyspark', 'pandas', 'boto3', 'airflow', 'sqlalchemy', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def installation(id: str, *, first: str = "") -> InstallationRecord:
    """Return the record of an installation with this id."""
    return InstallationRecord(number=1, id=id, place="file:///store", first=first or id, at="2026-11-22T00:00:00Z")


def test_a_copied_store_neither_notifies_nor_kills_drivers_of_the_original(place: Place) -> None:
    """An installation that became independent of the original reports the original's drivers as never having run, and
    neither notifies nor kills them.
    """
    ours = place.new_runner(installation=installation("a1"))
    ours.launch(place.spec(installation="a1"), {})
    place.pids()
    supervisor = place.supervisor()
    assert place.control().processes()[0].installation == "a1"
    copy = place.new_runner(installation=installation("b2", first="a1"))
    seen = copy.observe(JOB, "one")
    assert (seen.life, "never ran here" in seen.why) == (Life.DEAD, True)
    copy.notify(JOB, "one")
    copy.kill(JOB, "one")
    assert is_running(supervisor)
    assert ours.observe(JOB, "one").life is Life.ALIVE


def test_a_runner_without_an_installation_kills_drivers_of_the_original(place: Place) -> None:
    """Negative control: a runner without an installation kills the driver that the same records name."""
    place.new_runner(installation=installation("a1")).launch(place.spec(installation="a1"), {})
    place.pids()
    supervisor = place.supervisor()
    place.new_runner().kill(JOB, "one")
    wait_for("its end", lambda: not is_running(supervisor))


def test_a_driver_without_an_installation_id_belongs_to_the_first_installation(place: Place) -> None:
    """A driver that was started before installations had ids belongs to the first installation of its store, and to no
    other.
    """
    place.runner.launch(place.spec(), {})
    place.pids()
    assert place.new_runner(installation=installation("a1")).observe(JOB, "one").life is Life.ALIVE
    elsewhere = place.new_runner(installation=installation("b2", first="a1"))
    elsewhere._settings = replace(place.settings, store=f"{place.folder}/home")
    assert elsewhere.observe(JOB, "one").life is Life.DEAD


def test_a_driver_of_a_different_container_at_the_same_path_is_not_killed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver with the same id, path and marks, whose store directory differs because it runs in a different
    container, is unknown and not killed.

    Negative control: without that difference it is alive and is killed.
    """
    ours = place.new_runner(installation=installation("a1"))
    ours.launch(place.spec(installation="a1"), {})
    place.pids()
    supervisor = place.supervisor()
    elsewhere = tmp_path / "root of the other container"
    shutil.copytree(place.folder / "store", f"{elsewhere}{place.folder}/store")
    with monkeypatch.context() as patch:
        patch.setattr(process_tree, "root_of", lambda pid: str(elsewhere))
        seen = ours.observe(JOB, "one")
        assert (seen.life, "has another directory at" in seen.why) == (Life.UNKNOWN, True)
        ours.kill(JOB, "one")
    assert is_running(supervisor)
    assert ours.observe(JOB, "one").life is Life.ALIVE, "with the root that it has"
    ours.kill(JOB, "one")
    wait_for("its end, the negative control", lambda: not is_running(supervisor))
