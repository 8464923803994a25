"""What wakes a deferred step, and what does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamkeeper.lifecycle.steps import Step
from streamkeeper.model.control import DriverExit, DriverState, DriverStatus, QueryStatus
from streamkeeper.model.journal import AbortRequested, DeployRequest, InstancePlanned, OperationStarted, Role
from streamkeeper.orchestration.watch import Watch
from streamkeeper.registry.control import Control
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

    def watch(self, step: Step) -> Watch:
        return Watch(self.store, Journal(self.store, JOB, writer="watch"), JOB, OPERATION, step)

    def tell(self, state: DriverState, *, beat: int = 1, triggers: int = 0) -> None:
        query = QueryStatus(query="totals", version="v0001", epoch=1, triggers=triggers)
        status = DriverStatus(
            instance=CANDIDATE, release="r0001", generation=1, state=state, beat=beat, at="", queries={"totals": query}
        )
        self.control.write_status(status)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    return Scene(tmp_path)


def test_standby_is_news_while_standby_is_awaited(scene: Scene) -> None:
    """The step that waits for the standby is woken by it, not by heartbeats before."""
    watch = scene.watch(Step.STANDBY)
    before = watch.look()
    scene.tell(DriverState.STARTING, beat=7)
    assert watch.look() == before
    scene.tell(DriverState.STANDBY, beat=8)
    assert watch.look() != before


def test_only_the_first_trigger_is_news_while_it_is_awaited(scene: Scene) -> None:
    """Leaving the standby and opening the checkpoint wakes nobody; the first completed trigger does."""
    watch = scene.watch(Step.FIRST_COMMIT)
    scene.tell(DriverState.STANDBY)
    before = watch.look()
    scene.tell(DriverState.SERVING, beat=2)
    assert watch.look() == before
    scene.tell(DriverState.SERVING, beat=3, triggers=1)
    assert watch.look() != before


@pytest.mark.parametrize("step", [Step.STANDBY, Step.FIRST_COMMIT, Step.FALL_BACK])
def test_an_end_is_always_news(scene: Scene, step: Step) -> None:
    """A driver that ended wakes whatever step waits for it."""
    watch = scene.watch(step)
    before = watch.look()
    scene.control.write_exit(DriverExit(instance=CANDIDATE, state=DriverState.FAILED, code=5, error="boom"))
    assert watch.look() != before


def test_an_abort_is_news(scene: Scene) -> None:
    """Somebody who asks to end the operation does not have to wait for the driver."""
    watch = scene.watch(Step.STANDBY)
    before = watch.look()
    asked = AbortRequested(operation=OPERATION, requested_by="somebody", reason="wrong release")
    scene.journal.append(lambda state: None if state.operations[OPERATION].abort else asked)
    assert watch.look() != before
