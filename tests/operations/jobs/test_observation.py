"""The observation of a job: what decides whether its driver is alive, and in which order and how often the parts are
read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamkeeper.errors import RegistryDamaged
from streamkeeper.model.protocol.driver_messages import DriverExit, DriverState
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.records.journal_records import InstanceEnded
from streamkeeper.model.watch.job_status import JobStatus, find_standing
from streamkeeper.operations.jobs.job_facts import make_facts
from streamkeeper.operations.jobs.observation import (
    DriverObservation,
    JobObservation,
    observe_instances,
    observe_livenesses,
)
from streamkeeper.registry.driver_control import Control
from streamkeeper.stores.counting import CountingStore
from tests.operations.registered_job import JOB, Registered, RestingRunner

DRIVER = "op-candidate"


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job that was deployed once."""
    return Registered(tmp_path)


def test_a_recorded_termination_makes_a_driver_dead_in_every_observation(job: Registered) -> None:
    """A recorded termination makes a driver dead in every kind of observation, whatever the runner sees. Negative
    control: without the record it is alive.
    """
    job.runner.life = Life.ALIVE
    before = job.installation.journal(JOB, "test").state()
    assert DriverObservation.of(job.installation, before, DRIVER).liveness.life is Life.ALIVE
    job.record(InstanceEnded(operation="op", instance=DRIVER, proof="gone", exit="failed", fault="evicted"))
    look = JobObservation(job.installation, JOB)
    expected = Liveness(life=Life.DEAD, why="gone", fault=Fault.EVICTED)
    facts = make_facts(job.installation, look.state)
    assert look.driver(DRIVER).liveness == expected
    assert observe_instances(job.installation, look.state, [DRIVER]) == {DRIVER: expected}
    assert observe_livenesses(job.installation, {(JOB, DRIVER): facts.end}) == {(JOB, DRIVER): expected}
    assert DriverObservation(job.installation, JOB, DRIVER).liveness.life is Life.ALIVE, "what the runner alone sees"


def test_each_part_is_read_when_it_is_needed_and_once(job: Registered) -> None:
    """An observation reads each part on first use and only once; a new observation reads it afresh."""
    store = CountingStore(job.installation.store)
    look = JobObservation(replace(job.installation, store=store), JOB)
    assert store.requests == 0
    assert look.state.serving_instance == DRIVER
    requests = store.requests
    assert (look.standing, look.standing) == (JobStatus.FAILED, JobStatus.FAILED)
    assert store.requests == requests + 2, "the status and the exit record"
    job.runner.life = Life.ALIVE
    assert look.standing is JobStatus.FAILED
    assert JobObservation(job.installation, JOB).standing is JobStatus.STARTING


def test_a_status_that_cannot_be_read_is_read_once(job: Registered) -> None:
    """An unreadable status is read once: it is empty for display, and an error for code that needs it as a proof."""
    store = CountingStore(job.installation.store)
    job.installation.store.replace(f"control/{JOB}/{DRIVER}/status.json", b"{")
    driver = DriverObservation(replace(job.installation, store=store), JOB, DRIVER)
    assert driver.readable_status is None
    assert "status.json cannot be read" in driver.unread
    for _ in range(2):
        with pytest.raises(RegistryDamaged):
            _ = driver.status
    assert store.requests == 1


class EndingRunner(RestingRunner):
    """A runner whose driver terminates, with an exit record, while it is observed."""

    control: Control

    def observe(self, job: str, instance: str) -> Liveness:
        """Report the driver as alive once; afterwards it has recorded its exit and is dead."""
        seen = super().observe(job, instance)
        if self.life is Life.ALIVE:
            self.control.write_exit(DriverExit(instance=instance, state=DriverState.FINISHED, code=0))
            self.life = Life.DEAD
        return seen


def test_a_driver_that_terminates_during_an_observation_is_shown_as_finished(job: Registered) -> None:
    """A driver that terminates during the observation is shown as FINISHED, because its exit record is read last.
    Negative control: in the reverse order it is shown as FAILED.
    """
    runner = EndingRunner()
    runner.control, runner.life = Control(job.installation.store, JOB, DRIVER), Life.ALIVE
    installation = replace(job.installation, runner=runner)
    reverse = DriverObservation(installation, JOB, DRIVER)
    assert reverse.exit is None
    assert JobObservation(installation, JOB).standing is JobStatus.FINISHED
    assert find_standing(reverse.observed) is JobStatus.FAILED
