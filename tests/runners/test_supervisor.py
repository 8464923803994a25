"""Tests real supervisors with fake drivers: what they wait for, what they report while waiting, and when they stop for
good.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from harness.waiting import wait_for
from streamkeeper.model.coding import to_json
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverState, DriverStatus, ExitCode
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.protocol.restart_budgets import Cause, RestartPolicy
from streamkeeper.model.records.journal_records import (
    DesiredChanged,
    InstanceAppointed,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    ReleasePromoted,
    Role,
)
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.journal import Journal
from streamkeeper.runners.contract import Life
from streamkeeper.stores.contract import Store
from streamkeeper.stores.local import LocalStore
from tests.runners.launching import JOB, Place, is_running

QUICK = RestartPolicy(
    failure_pause_s=0.01,
    dependency_pause_s=0.01,
    dependency_longest_s=0.05,
    capacity_pause_s=0.01,
    capacity_longest_s=0.05,
)
STOP = DesiredChanged(serve=False, requested_by="ada", reason="maintenance", operation="stop-1")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


def record(store: Store, *records: Record) -> None:
    """Append records to the job's journal."""
    for each in records:
        Journal(store, JOB, writer="test").append(lambda _, each=each: each)  # type: ignore[misc]


def serve(place: Place, **spec: object) -> None:
    """Launch the instance ``one``, recorded as the current one."""
    record(
        place.store,
        OperationStarted(operation="op", request=DeployRequest(job=JOB), steps=()),
        InstancePlanned(operation="op", instance="one", release="r0001", role=Role.CANDIDATE),
        InstanceAppointed(operation="op", instance="one"),
        ReleasePromoted(operation="op", release="r0001", instance="one"),
        OperationFinished(operation="op", outcome=Outcome.SUCCEEDED, sentence=""),
    )
    place.runner.launch(place.spec(**spec), {})
    place.pids()


def generations(place: Place) -> int:
    """Return how many generations were started."""
    return len(place.control().processes())


def told(place: Place) -> DriverStatus | None:
    """Return the driver's status if it states what the supervisor waits for."""
    status = place.control().read_status()
    return status if status is not None and status.waiting else None


@contextmanager
def store_away(place: Place, code: int) -> Iterator[Store]:
    """Move the store to where the supervisor does not find it, and wait until the driver has exited with this code.

    Until the context exits, the supervisor waits for the store and cannot start a further generation.
    """
    store, away = place.folder / "store", place.folder / "away"
    driver, _ = place.pids()
    store.rename(away)
    place.order(f"exit {code}", generation=1)
    wait_for("the driver's end", lambda: not is_running(driver))
    yield LocalStore(away)
    away.rename(store)


def test_an_outage_of_a_dependency_costs_no_restart(place: Place) -> None:
    """With a budget of one failure, a supervisor still retries after a dozen generations that found the sink down, and
    its status states what it waits for.
    """
    place.order(f"print no answer\nexit {ExitCode.DEPENDENCY_DOWN}")
    serve(place, restart_budget=1, restarts=QUICK)
    wait_for("a dozen tries", lambda: generations(place) >= 12, 60)
    assert place.control().read_exit() is None
    status = wait_for("a word on what it waits for", lambda: told(place))
    assert status.cause == Cause.DEPENDENCY.value
    assert "a dependency does not answer" in status.waiting
    assert status.state is DriverState.STARTING


def test_an_outage_reported_as_a_plain_failure_stops_the_instance(place: Place) -> None:
    """Negative control: the same outage, reported as a plain failure, uses up the budget after one restart, and the
    exit states that.
    """
    place.order(f"exit {ExitCode.FAILED}")
    serve(place, restart_budget=1, restarts=QUICK)
    place.wait_dead()
    end = place.control().read_exit()
    assert end is not None
    assert (generations(place), end.cause) == (2, Cause.FAILURE.value)
    assert "1 restarts" in end.error


def test_a_permanent_exit_is_recorded_without_mentioning_restarts(place: Place) -> None:
    """A permanent exit is not restarted; its record has the cause and does not mention restarts."""
    place.order(f"print sink ahead\nexit {ExitCode.REFUSED}")
    serve(place, restarts=QUICK)
    place.wait_dead()
    end = place.control().read_exit()
    assert end is not None
    assert (generations(place), end.state, end.cause) == (1, DriverState.FAILED, Cause.PERMANENT.value)
    assert "restart" not in end.error
    assert "sink ahead" in end.error


def test_the_kind_of_fault_and_the_query_pass_into_the_exit(place: Place) -> None:
    """The exit record contains the fault and the failed query from the driver's last status."""
    place.order("print no word", generation=1)
    serve(place, restart_budget=0, restarts=QUICK)
    word = DriverStatus(
        instance="one", release="r0001", generation=1, state=DriverState.STARTING, beat=1, at="",
        error="query t: KeyError: metadata.json is missing", fault=Fault.UNCLASSIFIED.value, failed_query="t",
    )  # fmt: skip
    place.control().write_status(word)
    place.order(f"exit {ExitCode.FAILED}", generation=1)
    place.wait_dead()
    end = place.control().read_exit()
    assert end is not None
    assert (end.fault, end.failed_query, end.signal) == ("unclassified", "t", 0)
    assert "metadata.json is missing" in end.error


def test_a_machine_without_room_is_tried_within_its_own_budget(place: Place) -> None:
    """A lack of capacity is retried within its own budget, and the exit then records the cause and the fault."""
    place.order(f"exit {ExitCode.NO_CAPACITY}")
    serve(place, restart_budget=0, restarts=RestartPolicy(capacity_budget=3, capacity_pause_s=0.01))
    place.wait_dead()
    end = place.control().read_exit()
    assert end is not None
    assert (generations(place), end.cause) == (4, Cause.CAPACITY.value)
    assert end.fault == Fault.DISK_FULL.value


def test_a_supervisor_outlives_an_outage_of_the_store_of_many_leases(place: Place) -> None:
    """A supervisor survives a store outage of ten leases and starts the next generation once the store is back."""
    serve(place, lease_s=0.3, restarts=QUICK)
    supervisor = place.supervisor()
    store, away = place.folder / "store", place.folder / "away"
    store.rename(away)
    place.order(f"exit {ExitCode.STORE_LOST}", generation=1)
    wait_for("the outage", lambda: "could not be written" in place.log() or "does not answer" in place.log())
    time.sleep(3.0)
    assert is_running(supervisor)
    away.rename(store)
    driver, _ = place.pids(generation=2)
    assert is_running(driver)
    assert place.supervisor() == supervisor


def test_after_an_outage_a_stopped_job_stays_stopped(place: Place) -> None:
    """If the job was stopped during a store outage, the supervisor starts no further generation and records the
    instance as stopped.
    """
    serve(place, restarts=QUICK)
    with store_away(place, ExitCode.DEPENDENCY_DOWN) as store:
        record(store, STOP)
    place.wait_dead()
    end = place.control().read_exit()
    assert end is not None
    assert (end.state, end.error, generations(place)) == (DriverState.STOPPED, "", 1)
    assert "the job was stopped by ada" in place.log()


def test_a_failed_driver_with_a_drain_command_is_not_restarted(place: Place) -> None:
    """A driver that failed before it read its drain command is not restarted, and the instance is recorded as
    drained.
    """
    serve(place, restarts=QUICK)
    with store_away(place, 1) as store:
        Control(store, JOB, "one").send(CommandKind.DRAIN, "stop-1")
    place.wait_dead()
    end = place.control().read_exit()
    assert end is not None
    assert (end.state, generations(place)) == (DriverState.DRAINED, 1)


def test_after_an_outage_a_superseded_instance_stays_dead(place: Place) -> None:
    """If a different instance was appointed during a store outage, the supervisor starts no further generation and
    records the instance as fenced.
    """
    serve(place, restarts=QUICK)
    with store_away(place, ExitCode.DEPENDENCY_DOWN) as store:
        record(
            store,
            OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()),
            InstancePlanned(operation="op2", instance="two", release="r0001", role=Role.CANDIDATE),
            InstanceAppointed(operation="op2", instance="two"),
        )
    place.wait_dead()
    end = place.control().read_exit()
    assert end is not None
    assert (end.state, generations(place)) == (DriverState.FENCED, 1)


@pytest.mark.parametrize("code", [ExitCode.FAILED, ExitCode.FENCED])
def test_a_supervisor_whose_claim_was_lost_leaves_the_instance_to_another(place: Place, code: ExitCode) -> None:
    """If an older copy of the store was restored and a different process has claimed the generation, the supervisor
    starts no further generation and records no exit.
    """
    serve(place, restarts=QUICK)
    (mine,) = place.control().processes()
    (key,) = (key for key in place.store.list(f"control/{JOB}/one/") if "process-" in key)
    place.store.replace(key, to_json(msgspec.structs.replace(mine, pid=0, started=0)))
    place.order(f"exit {code.value}", generation=1)
    wait_for("the supervisor's end", lambda: not is_running(mine.pid))
    assert generations(place) == 1
    assert place.control().read_exit() is None


def test_an_undecided_store_outage_is_followed_by_the_next_generation(place: Place) -> None:
    """Negative control: when nothing was decided during the outage, the supervisor starts the next generation."""
    serve(place, restarts=QUICK)
    with store_away(place, ExitCode.DEPENDENCY_DOWN):
        pass
    driver, _ = place.pids(generation=2)
    assert is_running(driver)
    assert place.life() is Life.ALIVE
