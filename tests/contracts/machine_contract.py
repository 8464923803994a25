"""The contract tests for runners that prove the death of an instance by reading the process table of one machine."""

from __future__ import annotations

import os
from typing import Protocol

import pytest
from msgspec.structs import replace

from streamkeeper.model.protocol.driver_messages import ProcessRecord
from streamkeeper.runners import process_tree
from streamkeeper.runners.contract import Life
from streamkeeper.runners.local_process import LocalProcessRunner
from streamkeeper.runners.machine import Machine
from tests.contracts import runner_contract


class Place(runner_contract.Place, Protocol):
    """A test place whose processes run on one machine."""

    machine: Machine

    def new_runner(self, *, machine: Machine | None = None) -> LocalProcessRunner:
        """Return another runner on the same store; ``machine`` is the machine that it believes to run on."""

    def nudged(self) -> bool:
        """Return whether the first driver of ``one`` has received a nudge."""


class MachineContract:
    """The contract of a runner on one machine; a subclass provides the fixture ``place``."""

    def test_a_nudge_reaches_the_driver_only(self, place: Place) -> None:
        """A nudge is sent to the driver only, and not to its JVM or its supervisor, which have no signal handler and
        would be killed by it.
        """
        place.runner.launch(place.spec(), {})
        pids = [place.supervisor(), *place.pids()]
        place.runner.notify(place.job, "one")
        place.wait_for("the nudge", place.nudged)
        assert all(place.is_running(each) for each in pids)

    def test_a_child_that_outlives_its_driver_keeps_the_instance_alive(self, place: Place) -> None:
        """An instance counts as alive while its JVM survives the SIGKILL of both Python processes. Negative control: by
        the recorded pid alone, the instance would be dead.
        """
        place.runner.launch(place.spec(), {})
        supervisor, (driver, child) = place.supervisor(), place.pids()
        place.kill(supervisor)
        both = "the end of both Pythons"
        place.wait_for(both, lambda: not place.is_running(supervisor) and not place.is_running(driver))
        assert place.is_running(child)
        assert not place.is_running(place.control().processes()[-1].pid)
        assert place.life() is Life.ALIVE
        place.kill(child)
        assert f"supervisor {supervisor}" in place.wait_dead()

    def test_a_driver_does_not_outlive_its_supervisor(self, place: Place) -> None:
        """Killing a supervisor makes the kernel kill its driver, so that no driver runs unsupervised."""
        place.runner.launch(place.spec(), {})
        supervisor, (driver, _) = place.supervisor(), place.pids()
        place.kill(supervisor)
        place.wait_for("the driver's end", lambda: not place.is_running(driver))

    def test_what_runs_elsewhere_is_unknown(self, place: Place) -> None:
        """An instance on another machine is reported as unknown, with that host's name, whether it has claimed there or
        was only launched there.
        """
        other = far_away(place)
        place.control().write_launch(place.spec())
        there = place.new_runner(machine=other)
        there._write_launcher(place.job, "one")
        seen = place.runner.observe(place.job, "one")
        assert (seen.life, seen.elsewhere) == (Life.UNKNOWN, "far-away")
        assert "far-away" in seen.why
        assert there.observe(place.job, "one").life is Life.ABSENT
        place.control().write_process(record(other))
        seen = place.runner.observe_many([(place.job, "one")])[place.job, "one"]
        assert (seen.life, seen.elsewhere) == (Life.UNKNOWN, "far-away")
        assert "far-away" in seen.why

    def test_an_instance_launched_on_two_machines_is_unknown_to_both(self, place: Place) -> None:
        """An instance that was launched on two machines is unknown to both, because its absence on one machine proves
        nothing about the other.
        """
        place.control().write_launch(place.spec())
        there = place.new_runner(machine=far_away(place))
        place.new_runner()._write_launcher(place.job, "one")
        there._write_launcher(place.job, "one")
        assert place.life() is Life.UNKNOWN
        assert there.observe(place.job, "one").life is Life.UNKNOWN

    def test_another_container_of_the_same_machine_is_unknown(self, place: Place) -> None:
        """An instance in another container of the same machine is unknown, because pids have no meaning outside their
        namespace.
        """
        inside = replace(place.machine, pid_namespace="4026532999", host="container")
        place.control().write_process(record(inside))
        assert place.life() is Life.UNKNOWN

    def test_a_process_from_before_a_reboot_is_dead(self, place: Place) -> None:
        """A process that was recorded before this machine's reboot is dead, and the proof is marked as a reboot; a
        death within the same boot is not.
        """
        here = replace(place.machine, hardware="a" * 32, pid_namespace="4026531836")
        before = replace(here, boot="the-boot-before")
        place.control().write_launch(place.spec())
        place.control().write_process(record(before, pid=os.getpid()))
        seen = place.new_runner(machine=here).observe(place.job, "one")
        assert (seen.life, seen.rebooted) == (Life.DEAD, True)
        assert "booted since" in seen.why
        place.runner.launch(place.spec("two"), {})
        place.pids("two")
        place.runner.kill(place.job, "two")
        place.wait_dead("two")
        assert not place.runner.observe(place.job, "two").rebooted

    @pytest.mark.parametrize("difference", ["hardware", "host", "pid_namespace", "no hardware"])
    def test_a_reboot_proves_a_death_on_this_very_machine_only(self, place: Place, difference: str) -> None:
        """A different boot proves a death only on this very machine: an instance of a clone, a different host, another
        container or unidentified hardware is unknown.
        """
        here = replace(place.machine, hardware="a" * 32, pid_namespace="4026531836")
        other = {"hardware": "b" * 32, "host": "clone", "pid_namespace": "4026532999", "no hardware": ""}[difference]
        field = "hardware" if difference == "no hardware" else difference
        before = replace(here, boot="the-boot-before", **{field: other})
        place.control().write_process(record(before))
        runner = place.new_runner(machine=replace(here, hardware="") if not other else here)
        assert runner.observe(place.job, "one").life is Life.UNKNOWN

    def test_another_users_processes_are_unknown_unless_we_are_root(self, place: Place) -> None:
        """An instance of another user is unknown unless the runner is root, because the environment of its processes
        cannot be read.
        """
        here = place.machine
        place.control().write_process(record(replace(here, user=12345)))
        assert place.new_runner(machine=replace(here, user=777)).observe(place.job, "one").life is Life.UNKNOWN
        assert place.new_runner(machine=replace(here, user=0)).observe(place.job, "one").life is Life.DEAD

    def test_observing_many_instances_at_once_equals_observing_each(self, place: Place) -> None:
        """Observing several instances in one call returns the same results as observing them one by one, for a living,
        a frozen, a dead, a failed and a never launched instance.
        """
        for name in ("lives", "frozen", "killed", "failed"):
            place.runner.launch(place.spec(name, restart_budget=0), {})
        pids = {name: place.pids(name) for name in ("lives", "frozen", "killed", "failed")}
        place.freeze(pids["frozen"][1])
        place.runner.kill(place.job, "killed")
        place.order("exit 7", "failed")
        place.wait_dead("killed")
        place.wait_dead("failed")
        job, names = place.job, [*pids, "never"]
        found = place.runner.observe_many([(job, name) for name in names])
        assert {name: found[job, name] for name in names} == {name: place.runner.observe(job, name) for name in names}
        assert [found[job, name].life for name in names] == [Life.ALIVE, Life.ALIVE, Life.DEAD, Life.DEAD, Life.ABSENT]
        assert [found[job, name].frozen for name in names] == [False, True, False, False, False]
        assert [found[job, name].halted for name in names] == [False, True, False, False, False]

    def test_a_stopped_supervisor_does_not_halt_its_driver(self, place: Place) -> None:
        """A stopped supervisor makes an instance frozen but not halted, because its driver can still finish its batch
        and be drained. Negative control: a stopped driver makes the instance halted.
        """
        place.runner.launch(place.spec("one", restart_budget=0), {})
        driver, supervisor = place.pids("one")[0], place.supervisor("one")
        place.freeze(supervisor)
        place.wait_for("its freezing", lambda: place.runner.observe(place.job, "one").frozen)
        assert not place.runner.observe(place.job, "one").halted
        place.freeze(driver)
        place.wait_for("the driver's freezing", lambda: place.runner.observe(place.job, "one").halted)

    def test_a_process_table_older_than_the_records_reports_a_new_driver_dead(self, place: Place) -> None:
        """Negative control: a process table that is read before the records reports a driver that started in between as
        dead; the runner reads it afterwards and reports the driver as alive.
        """
        early = process_tree.ProcessTable()
        place.runner.launch(place.spec(), {})
        place.pids()
        assert place.runner.observe_many([(place.job, "one")])[place.job, "one"].life is Life.ALIVE
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("streamkeeper.runners.local_process.ProcessTable", lambda: early)
            assert place.runner.observe_many([(place.job, "one")])[place.job, "one"].life is Life.DEAD


def far_away(place: Place) -> Machine:
    """Return a different machine with the host name ``far-away``."""
    return replace(place.machine, hardware="b" * 32, boot="another-boot", host="far-away")


def record(machine: Machine, *, pid: int = 4_000_000, started: int = 1) -> ProcessRecord:
    """Return a claim of the instance ``one``, by default by a process that does not run."""
    return ProcessRecord(
        instance="one", generation=1, pid=pid, started=started, machine=machine.text, host=machine.host
    )
