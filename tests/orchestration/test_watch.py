"""Tests which changes wake a deferred step and which do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.model.protocol.driver_messages import DriverExit, DriverState, DriverStatus, QueryStatus
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.journal_records import (
    AbortRequested,
    ApprovalAnswered,
    InstancePlanned,
    OperationStarted,
    Record,
    ReleaseDescribed,
    Role,
    StepDone,
)
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.orchestration.watch import NEAR, OperationWatch
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.local import LocalStore

JOB, OPERATION = "sales_totals", "op"
CANDIDATE = "op-candidate"


class Scene:
    """A job with one open operation and its candidate."""

    def __init__(self, root: Path) -> None:
        self.store = LocalStore(root)
        self.journal = Journal(self.store, JOB, writer="test")
        self.control = Control(self.store, JOB, CANDIDATE)
        started = OperationStarted(operation=OPERATION, request=DeployRequest(job=JOB), steps=())
        planned = InstancePlanned(operation=OPERATION, instance=CANDIDATE, release="r0001", role=Role.CANDIDATE)
        for record in (started, planned):
            self.journal.append(lambda state, record=record: record)

    def watch(self, step: Step) -> OperationWatch:
        return OperationWatch(self.store, Journal(self.store, JOB, writer="watch"), JOB, OPERATION, step)

    def tell(
        self, state: DriverState, *, beat: int = 1, compared: dict[str, OutputComparison] | None = None, **query: Any
    ) -> None:
        told = QueryStatus(query="totals", version="v0001", epoch=1, **query)
        status = DriverStatus(
            instance=CANDIDATE,
            release="r0001",
            generation=1,
            state=state,
            beat=beat,
            at="",
            queries={"totals": told},
            compared=compared or {},
        )
        self.control.write_status(status)

    def record(self, record: Record) -> None:
        self.journal.append(lambda state: record)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    return Scene(tmp_path)


def test_a_step_that_awaits_standby_is_woken_by_standby(scene: Scene) -> None:
    """A step that waits for the standby is woken when the driver reaches standby, and not by its earlier heartbeats."""
    watch = scene.watch(Step.STANDBY)
    before = watch.look()
    scene.tell(DriverState.STARTING, beat=7)
    assert watch.look() == before
    scene.tell(DriverState.STANDBY, beat=8)
    assert watch.look() != before


def test_a_step_that_awaits_the_first_commit_is_woken_by_the_first_trigger(scene: Scene) -> None:
    """A step that waits for the first commit is woken by the first completed trigger, and not when the driver leaves
    standby.
    """
    watch = scene.watch(Step.FIRST_COMMIT)
    scene.tell(DriverState.STANDBY)
    before = watch.look()
    scene.tell(DriverState.SERVING, beat=2)
    assert watch.look() == before
    scene.tell(DriverState.SERVING, beat=3, triggers=1)
    assert watch.look() != before


@pytest.mark.parametrize("step", [Step.STANDBY, Step.FIRST_COMMIT, Step.FALL_BACK])
def test_the_exit_of_a_driver_wakes_every_waiting_step(scene: Scene, step: Step) -> None:
    """The exit of a driver wakes every step that waits for that driver."""
    watch = scene.watch(step)
    before = watch.look()
    scene.control.write_exit(DriverExit(instance=CANDIDATE, state=DriverState.FAILED, code=5, error="boom"))
    assert watch.look() != before


def test_the_answer_to_an_approval_wakes_the_waiting_step(scene: Scene) -> None:
    """The answer to an approval wakes the step that waits for it."""
    watch = scene.watch(Step.APPROVE)
    before = watch.look()
    answered = ApprovalAnswered(operation=OPERATION, approved=True, by="ada", reason="", bundle="b", batches={})
    scene.record(answered)
    assert watch.look() != before


def test_the_catch_up_step_is_woken_by_the_first_trigger_without_new_input(scene: Scene) -> None:
    """The catch-up step is woken by the first trigger that finds no new input, and not by each batch or by further
    empty triggers.
    """
    watch = scene.watch(Step.CATCH_UP)
    scene.tell(DriverState.SHADOW)
    before = watch.look()
    scene.tell(DriverState.SHADOW, beat=2, triggers=7, committed=6)
    assert watch.look() == before
    scene.tell(DriverState.SHADOW, beat=3, triggers=8, committed=6)
    near = watch.look()
    assert near[-1].endswith(NEAR)
    scene.tell(DriverState.SHADOW, beat=4, triggers=9, committed=6)
    assert watch.look() == near


def test_a_reported_comparison_wakes_the_waiting_step(scene: Scene) -> None:
    """The step that waits for compared outputs is woken when the driver reports the comparison."""
    watch = scene.watch(Step.COMPARE)
    scene.tell(DriverState.SHADOW)
    before = watch.look()
    scene.tell(DriverState.SHADOW, compared={"totals": OutputComparison()})
    assert watch.look() != before


def test_the_probation_step_is_woken_only_after_the_requested_triggers(scene: Scene) -> None:
    """The probation step is woken once the requested number of triggers after the first one has completed, and by no
    earlier trigger.
    """
    scene.record(StepDone(operation=OPERATION, step="bundle", result={"release": "r0001"}))
    scene.record(ReleaseDescribed(release="r0001", manifests={"totals": "m"}))
    watch = scene.watch(Step.PROBATION)
    wanted = DeployRequest(job=JOB).probation_batches + 1
    scene.tell(DriverState.SERVING, triggers=1)
    before = watch.look()
    scene.tell(DriverState.SERVING, triggers=wanted - 1)
    assert watch.look() == before
    scene.tell(DriverState.SERVING, triggers=wanted)
    assert watch.look() != before


@pytest.mark.parametrize("step", [Step.FIRST_COMMIT, Step.PROBATION])
def test_a_second_failure_of_a_query_wakes_the_waiting_steps(scene: Scene, step: Step) -> None:
    """A single failure of a query wakes no step, while a second one wakes the first-commit and probation steps, so that
    a broken release falls back at once.
    """
    watch = scene.watch(step)
    scene.tell(DriverState.SERVING, failures=1, error="boom")
    before = watch.look()
    scene.tell(DriverState.SERVING, failures=2, error="boom")
    assert watch.look() != before


def test_an_abort_request_wakes_the_waiting_step(scene: Scene) -> None:
    """A request to abort the operation wakes the step that waits for the driver."""
    watch = scene.watch(Step.STANDBY)
    before = watch.look()
    asked = AbortRequested(operation=OPERATION, requested_by="somebody", reason="wrong release")
    scene.journal.append(lambda state: None if state.operations[OPERATION].abort else asked)
    assert watch.look() != before
