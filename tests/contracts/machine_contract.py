"""What a runner must do that proves an end by looking at the processes of one machine, as tests."""

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
    """A place on one machine."""

    machine: Machine

    def new_runner(self, *, machine: Machine | None = None) -> LocalProcessRunner:
        """Another runner on the same store; ``machine``: where it believes to be."""

    def nudged(self) -> bool:
        """Whether the first driver of ``one`` was nudged."""


class MachineContract:
    """A subclass gives a fixture ``place``."""

    def test_a_nudge_reaches_the_driver_only(self, place: Place) -> None:
        """Neither its JVM nor its supervisor, which have no handler and would die of it."""
        place.runner.launch(place.spec(), {})
        pids = [place.supervisor(), *place.pids()]
        place.runner.notify(place.job, "one")
        place.wait_for("the nudge", place.nudged)
        assert all(place.is_running(each) for each in pids)

    def test_a_child_that_outlives_its_driver_keeps_the_instance_alive(self, place: Place) -> None:
        """A JVM lives on after SIGKILL of its Python; negative control: the recorded pid alone would say dead."""
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
        """The kernel ends it when the supervisor is killed: no driver runs that nobody watches."""
        place.runner.launch(place.spec(), {})
        supervisor, (driver, _) = place.supervisor(), place.pids()
        place.kill(supervisor)
        place.wait_for("the driver's end", lambda: not place.is_running(driver))

    def test_what_runs_elsewhere_is_unknown(self, place: Place) -> None:
        """Neither dead nor absent, with the host's name; also when it was launched there and has not claimed yet."""
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

    def test_what_was_launched_here_and_elsewhere_is_unknown(self, place: Place) -> None:
        """That nothing runs here says nothing about the other machine, whichever of them began first."""
        place.control().write_launch(place.spec())
        there = place.new_runner(machine=far_away(place))
        place.new_runner()._write_launcher(place.job, "one")
        there._write_launcher(place.job, "one")
        assert place.life() is Life.UNKNOWN
        assert there.observe(place.job, "one").life is Life.UNKNOWN

    def test_another_container_of_the_same_machine_is_unknown(self, place: Place) -> None:
        """Pids mean nothing outside their namespace."""
        inside = replace(place.machine, pid_namespace="4026532999", host="container")
        place.control().write_process(record(inside))
        assert place.life() is Life.UNKNOWN

    def test_a_process_from_before_a_reboot_is_dead(self, place: Place) -> None:
        """The machine is the same, its boot is another: nothing of then can live. The proof says that it was rebooted;
        a death in the same boot does not.
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
    def test_a_reboot_is_believed_of_this_very_machine_only(self, place: Place, difference: str) -> None:
        """A clone, another host and a container may still be running."""
        here = replace(place.machine, hardware="a" * 32, pid_namespace="4026531836")
        other = {"hardware": "b" * 32, "host": "clone", "pid_namespace": "4026532999", "no hardware": ""}[difference]
        field = "hardware" if difference == "no hardware" else difference
        before = replace(here, boot="the-boot-before", **{field: other})
        place.control().write_process(record(before))
        runner = place.new_runner(machine=replace(here, hardware="") if not other else here)
        assert runner.observe(place.job, "one").life is Life.UNKNOWN

    def test_another_users_processes_are_unknown_unless_we_are_root(self, place: Place) -> None:
        """Their environment cannot be read, so their absence cannot be proven."""
        here = place.machine
        place.control().write_process(record(replace(here, user=12345)))
        assert place.new_runner(machine=replace(here, user=777)).observe(place.job, "one").life is Life.UNKNOWN
        assert place.new_runner(machine=replace(here, user=0)).observe(place.job, "one").life is Life.DEAD

    def test_many_are_looked_at_as_one(self, place: Place) -> None:
        """A living, a frozen, a dead, a failed and a never launched instance: the same words as one by one."""
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
        """The driver can finish its batch: it is drained, not killed. Negative control: the stopped driver."""
        place.runner.launch(place.spec("one", restart_budget=0), {})
        driver, supervisor = place.pids("one")[0], place.supervisor("one")
        place.freeze(supervisor)
        place.wait_for("its freezing", lambda: place.runner.observe(place.job, "one").frozen)
        assert not place.runner.observe(place.job, "one").halted
        place.freeze(driver)
        place.wait_for("the driver's freezing", lambda: place.runner.observe(place.job, "one").halted)

    def test_a_look_from_before_the_records_would_call_a_new_driver_dead(self, place: Place) -> None:
        """The negative control: who started after the only look is in the records, and not in it."""
        early = process_tree.ProcessTable()
        place.runner.launch(place.spec(), {})
        place.pids()
        assert place.runner.observe_many([(place.job, "one")])[place.job, "one"].life is Life.ALIVE
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("streamkeeper.runners.local_process.ProcessTable", lambda: early)
            assert place.runner.observe_many([(place.job, "one")])[place.job, "one"].life is Life.DEAD


def far_away(place: Place) -> Machine:
    """Another machine."""
    return replace(place.machine, hardware="b" * 32, boot="another-boot", host="far-away")


def record(machine: Machine, *, pid: int = 4_000_000, started: int = 1) -> ProcessRecord:
    """A claim of the instance ``one``; by default of a process that does not run."""
    return ProcessRecord(
        instance="one", generation=1, pid=pid, started=started, machine=machine.text, host=machine.host
    )
