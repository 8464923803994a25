"""Driver trees on this machine: the contract, and what only a process tree can get wrong."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from harness.processes import killed_after
from harness.waiting import wait_for
from streamkeeper.errors import InvalidInput, TemporaryError
from streamkeeper.model.control import DriverState, ProcessRecord
from streamkeeper.model.installation_record import InstallationRecord
from streamkeeper.runners import local_process, process_tree
from streamkeeper.runners.contract import Life
from streamkeeper.runners.local_process import LocalProcessRunner
from streamkeeper.runners.machine import this_machine
from streamkeeper.runners.process_tree import find_tree, mark, read_process
from tests.contracts.runner_contract import RunnerContract
from tests.runners.launching import JOB, Place, end, is_running

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


class TestLocalProcessRunner(RunnerContract):
    """The contract."""


def test_a_nudge_reaches_the_driver_only(place: Place) -> None:
    """Neither its JVM nor its supervisor, which have no handler and would die of it."""
    place.runner.launch(place.spec(), {})
    pids = [place.supervisor(), *place.pids()]
    place.runner.nudge(JOB, "one")
    wait_for("the nudge", Path(place.folder, "orders", "one.1.nudged").exists)
    assert all(is_running(each) for each in pids)


def test_a_nudge_does_not_kill_a_driver_that_is_not_ready_for_it(place: Place) -> None:
    """Without a handler SIGUSR1 would end it."""
    place.order("unready")
    place.runner.launch(place.spec(), {})
    driver, _ = place.pids()
    place.runner.nudge(JOB, "one")
    place.order("print still here")
    wait_for("a line in the log", lambda: "still here" in place.log())
    assert is_running(driver)


def recorded_pid_is_gone(place: Place) -> bool:
    """The proof that is none: it looks at the recorded process only."""
    record = place.control().processes()[-1]
    found = read_process(record.pid)
    return found is None or found.started != record.started


def test_a_child_that_outlives_its_driver_keeps_the_instance_alive(place: Place) -> None:
    """A JVM lives on after SIGKILL of its Python; negative control: the recorded pid alone would say dead."""
    place.runner.launch(place.spec(), {})
    supervisor, (driver, child) = place.supervisor(), place.pids()
    end(supervisor)
    wait_for("the end of both Pythons", lambda: not is_running(supervisor) and not is_running(driver))
    assert is_running(child)
    assert recorded_pid_is_gone(place)
    assert place.life() is Life.ALIVE
    end(child)
    assert f"supervisor {supervisor}" in place.wait_dead()


def test_a_driver_does_not_outlive_its_supervisor(place: Place) -> None:
    """The kernel ends it when the supervisor is killed: no driver runs that nobody watches."""
    place.runner.launch(place.spec(), {})
    supervisor, (driver, _) = place.supervisor(), place.pids()
    end(supervisor)
    wait_for("the driver's end", lambda: not is_running(driver))


def test_a_process_whose_mark_cannot_be_read_is_found_by_its_session(place: Place) -> None:
    """A program that writes over its environment stays in the tree; negative control: the mark alone misses it."""
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


def test_a_pid_used_again_is_not_taken_for_the_old_process(place: Place) -> None:
    """A living process with a recorded pid, but another start time, proves nothing alive, and is not killed."""
    other = subprocess.Popen(["/bin/sleep", "300"], start_new_session=True)
    try:
        found = read_process(other.pid)
        assert found is not None
        place.control().write_launch(place.spec())
        place.control().write_process(record(pid=other.pid, started=found.started - 1))
        assert place.life() is Life.DEAD
        place.runner.kill(JOB, "one")
        assert is_running(other.pid)
    finally:
        other.kill()
        other.wait()


def record(*, pid: int = 4_000_000, started: int = 1, **changes: str) -> ProcessRecord:
    here = this_machine()
    values = {"machine": here.text, "host": here.host, **changes}
    return ProcessRecord(instance="one", generation=1, pid=pid, started=started, **values)


def test_what_runs_elsewhere_is_unknown(place: Place) -> None:
    """Neither dead nor absent, with the host's name; also when it was launched there and has not claimed yet."""
    here = this_machine()
    other = msgspec.structs.replace(here, hardware="b" * 32, boot="another-boot", host="far-away")
    place.control().write_launch(place.spec())
    there = place.new_runner(machine=other)
    there._write_launcher(JOB, "one")
    seen = place.runner.observe(JOB, "one")
    assert (seen.life, seen.elsewhere) == (Life.UNKNOWN, "far-away")
    assert "far-away" in seen.why
    assert there.observe(JOB, "one").life is Life.ABSENT
    place.control().write_process(record(machine=other.text, host="far-away"))
    seen = place.runner.observe_many([(JOB, "one")])[JOB, "one"]
    assert (seen.life, seen.elsewhere) == (Life.UNKNOWN, "far-away")
    assert "far-away" in seen.why


def test_another_container_of_the_same_machine_is_unknown(place: Place) -> None:
    """Pids mean nothing outside their namespace."""
    inside = msgspec.structs.replace(this_machine(), pid_namespace="4026532999", host="container")
    place.control().write_process(record(machine=inside.text, host="container"))
    assert place.life() is Life.UNKNOWN


def test_a_process_from_before_a_reboot_is_dead(place: Place) -> None:
    """The machine is the same, its boot is another: nothing of then can live."""
    here = msgspec.structs.replace(this_machine(), hardware="a" * 32, pid_namespace="4026531836")
    before = msgspec.structs.replace(here, boot="the-boot-before")
    place.control().write_process(record(machine=before.text, host=before.host, pid=os.getpid()))
    seen = place.new_runner(machine=here).observe(JOB, "one")
    assert seen.life is Life.DEAD
    assert "booted since" in seen.why


@pytest.mark.parametrize("difference", ["hardware", "host", "pid_namespace", "no hardware"])
def test_a_reboot_is_believed_of_this_very_machine_only(place: Place, difference: str) -> None:
    """A clone, another host and a container may still be running."""
    here = msgspec.structs.replace(this_machine(), hardware="a" * 32, pid_namespace="4026531836")
    other = {"hardware": "b" * 32, "host": "clone", "pid_namespace": "4026532999", "no hardware": ""}[difference]
    field = "hardware" if difference == "no hardware" else difference
    before = msgspec.structs.replace(here, boot="the-boot-before", **{field: other})
    place.control().write_process(record(machine=before.text, host=before.host))
    runner = place.new_runner(machine=msgspec.structs.replace(here, hardware="") if not other else here)
    assert runner.observe(JOB, "one").life is Life.UNKNOWN


def test_another_users_processes_are_unknown_unless_we_are_root(place: Place) -> None:
    """Their environment cannot be read, so their absence cannot be proven."""
    here = this_machine()
    theirs = msgspec.structs.replace(here, user=12345)
    place.control().write_process(record(machine=theirs.text))
    assert place.new_runner(machine=msgspec.structs.replace(here, user=777)).observe(JOB, "one").life is Life.UNKNOWN
    assert place.new_runner(machine=msgspec.structs.replace(here, user=0)).observe(JOB, "one").life is Life.DEAD


LAUNCHER = """
import sys, time
from pathlib import Path
from tests.runners.launching import Place
class Again(Place):
    def __post_init__(self):
        from streamkeeper.model.settings import Settings
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
    """A restart of Airflow, which ends a task's group, leaves the driver; and the launcher keeps no zombie."""
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


def test_a_terminated_supervisor_ends_its_tree_and_says_so(place: Place) -> None:
    """SIGTERM, as of a machine going down, leaves no driver behind and no doubt."""
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


def test_a_supervisor_ends_though_the_store_is_gone(place: Place) -> None:
    """It tries for the lease's life and then ends; when the store is back the instance is proven dead all the same."""
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
    """Secrets of the launcher's own environment do not leak into drivers; the store's credentials go along."""
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
    """Before anything is started; what was recorded can be killed, and is then dead."""
    runner = LocalProcessRunner(place.store, place.settings, driver=("/no/such/python",))
    with pytest.raises(InvalidInput, match="/no/such/python"):
        runner.launch(place.spec(), {})
    assert place.life() is Life.ABSENT


@pytest.mark.parametrize("installed", [False, True])
def test_a_launch_names_the_interpreter_of_its_driver(
    place: Place, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver gets this Streamkeeper, but none that lies among packages: they would hide the interpreter's own."""
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
    """The supervisor's word says why."""
    program = place.folder / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o700)
    runner = LocalProcessRunner(place.store, place.settings, driver=(str(program),))
    runner.launch(place.spec(restart_budget=0), {})
    place.wait_dead()
    end_ = place.control().read_exit()
    assert end_ is not None
    assert "cannot be started" in end_.error


def test_a_master_of_an_airflow_connection_is_asked_for_at_each_launch(place: Place) -> None:
    """A driver gets what the connection names by then; a process that cannot read connections says so at once."""
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
    """It loads neither Spark nor an S3 client nor pandas: it lives as long as its driver."""
    code = (
        "import sys, streamkeeper.runners.supervisor, streamkeeper.stores.local; "
        "print(sorted({'pyspark', 'pandas', 'boto3', 'airflow', 'sqlalchemy', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def installation(id: str, *, first: str = "") -> InstallationRecord:
    """One by its id."""
    return InstallationRecord(number=1, id=id, place="file:///store", first=first or id, at="2026-11-22T00:00:00Z")


def test_a_copied_store_neither_sees_nor_ends_the_drivers_of_the_other_one(place: Place) -> None:
    """Its records name their pids: to the copy that has become its own they never ran here, and nothing is killed."""
    ours = place.new_runner(installation=installation("a1"))
    ours.launch(place.spec(installation="a1"), {})
    place.pids()
    supervisor = place.supervisor()
    assert place.control().processes()[0].installation == "a1"
    copy = place.new_runner(installation=installation("b2", first="a1"))
    seen = copy.observe(JOB, "one")
    assert (seen.life, "never ran here" in seen.why) == (Life.DEAD, True)
    copy.nudge(JOB, "one")
    copy.kill(JOB, "one")
    assert is_running(supervisor)
    assert ours.observe(JOB, "one").life is Life.ALIVE


def test_without_the_installations_mark_a_copy_ends_them(place: Place) -> None:
    """The negative control: the same records in a store that nobody tells apart."""
    place.new_runner(installation=installation("a1")).launch(place.spec(installation="a1"), {})
    place.pids()
    supervisor = place.supervisor()
    place.new_runner().kill(JOB, "one")
    wait_for("its end", lambda: not is_running(supervisor))


def test_a_driver_of_before_there_were_ids_is_the_first_installations(place: Place) -> None:
    """Its records and its environment have none: it is known by its store, and by being the store's first."""
    place.runner.launch(place.spec(), {})
    place.pids()
    assert place.new_runner(installation=installation("a1")).observe(JOB, "one").life is Life.ALIVE
    elsewhere = place.new_runner(installation=installation("b2", first="a1"))
    elsewhere._settings = replace(place.settings, store=f"{place.folder}/home")
    assert elsewhere.observe(JOB, "one").life is Life.DEAD


def test_a_copy_at_the_same_path_in_another_container_ends_nobody(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the same id, place and marks: only the directory that the process finds there is another one."""
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


def test_many_are_looked_at_as_one(place: Place) -> None:
    """A living, a frozen, a dead, a failed and a never launched instance: the same words as one by one."""
    for name in ("lives", "frozen", "killed", "failed"):
        place.runner.launch(place.spec(name, restart_budget=0), {})
    pids = {name: place.pids(name) for name in ("lives", "frozen", "killed", "failed")}
    end(pids["frozen"][1], signal.SIGSTOP)
    place.runner.kill(JOB, "killed")
    place.order("exit 7", "failed")
    place.wait_dead("killed")
    place.wait_dead("failed")
    names = [*pids, "never"]
    found = place.runner.observe_many([(JOB, name) for name in names])
    assert {name: found[JOB, name] for name in names} == {name: place.runner.observe(JOB, name) for name in names}
    assert [found[JOB, name].life for name in names] == [Life.ALIVE, Life.ALIVE, Life.DEAD, Life.DEAD, Life.ABSENT]
    assert [found[JOB, name].frozen for name in names] == [False, True, False, False, False]
    assert [found[JOB, name].halted for name in names] == [False, True, False, False, False]


def test_a_stopped_supervisor_does_not_halt_its_driver(place: Place) -> None:
    """The driver can finish its batch: it is drained, not killed. Negative control: the stopped driver."""
    place.runner.launch(place.spec("one", restart_budget=0), {})
    driver, supervisor = place.pids("one")[0], place.supervisor("one")
    end(supervisor, signal.SIGSTOP)
    wait_for("its freezing", lambda: place.runner.observe(JOB, "one").frozen)
    assert not place.runner.observe(JOB, "one").halted
    end(driver, signal.SIGSTOP)
    wait_for("the driver's freezing", lambda: place.runner.observe(JOB, "one").halted)


def test_a_look_from_before_the_records_would_call_a_new_driver_dead(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: who started after the only look is in the records, and not in it."""
    early = process_tree.ProcessTable()
    place.runner.launch(place.spec(), {})
    place.pids()
    assert place.runner.observe_many([(JOB, "one")])[JOB, "one"].life is Life.ALIVE
    monkeypatch.setattr("streamkeeper.runners.local_process.ProcessTable", lambda: early)
    assert place.runner.observe_many([(JOB, "one")])[JOB, "one"].life is Life.DEAD


def test_a_machine_that_has_booted_since_is_told(place: Place) -> None:
    """The proof says so in a word that the watch can read; a death in the same boot does not."""
    here = replace(this_machine(), hardware="h", pid_namespace="4026531836")
    place.control().write_launch(place.spec())
    before = replace(here, boot="another-boot")
    place.control().write_process(replace(record(pid=1, started=1), machine=before.text, host=here.host))
    seen = place.new_runner(machine=here).observe(JOB, "one")
    assert (seen.life, seen.rebooted) == (Life.DEAD, True)
