"""Tests the pure decisions of a stop."""

from __future__ import annotations

from streamkeeper.lifecycle.actions import Kill, RecordEnd, Send, Wait
from streamkeeper.lifecycle.instances import kill_wait
from streamkeeper.lifecycle.steps import HALTED_S, KILL_S
from streamkeeper.lifecycle.stop_steps import Stopped, StopView, TakenOver, Unprovable, decide_stop
from streamkeeper.model.protocol.driver_messages import CommandKind
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.protocol.observed_driver import ObservedDriver
from streamkeeper.model.records.journal_records import DesiredChanged, InstanceEnded, Record
from tests.lifecycle.test_continuation import STOP, second, state_of

TOLD = frozenset({CommandKind.GO, CommandKind.DRAIN})


def act(
    life: Life,
    *more: Record,
    sent: frozenset[CommandKind] = TOLD,
    on: str = "",
    waited_s: float = 0.0,
    halted: bool = False,
) -> object:
    """Return the next act for a job whose stop is recorded."""
    seen = {"one": ObservedDriver(liveness=Liveness(life=life, why="seen", halted=halted, frozen=halted), sent=sent)}
    state = state_of(STOP, *more)
    view = StopView(state=state, stop="stop-1", seen=seen, drain_s=120, on=on, waited_s=waited_s)
    return decide_stop(view).action


def test_a_stop_sends_one_drain_command_and_waits() -> None:
    """A stop sends one DRAIN command, even if the driver's life is unknown, and then waits for the drain."""
    for life in (Life.ALIVE, Life.UNKNOWN):
        assert act(life, sent=frozenset()) == Send("one", CommandKind.DRAIN)
        assert act(life) == Wait("one: drain", 120)


def test_a_driver_that_survives_the_kill_is_not_proven_dead() -> None:
    """A driver that does not drain in time is killed, and if it survives the kill the stop reports that its end cannot
    be proven.
    """
    assert act(Life.ALIVE, on="one: drain", waited_s=121) == Kill("one")
    assert act(Life.ALIVE, on=kill_wait("one"), waited_s=1) == Kill("one")
    assert isinstance(act(Life.ALIVE, on=kill_wait("one"), waited_s=KILL_S + 1), Unprovable)


def test_a_driver_whose_processes_are_stopped_is_killed_early() -> None:
    """A driver whose processes are stopped is killed after ``HALTED_S``. Negative control: a running driver has the
    full 120 s.
    """
    assert act(Life.ALIVE, on="one: drain", waited_s=1, halted=True) == Wait("one: drain", HALTED_S)
    assert act(Life.ALIVE, on="one: drain", waited_s=HALTED_S + 1, halted=True) == Kill("one")
    assert act(Life.ALIVE, on="one: drain", waited_s=HALTED_S + 1) == Wait("one: drain", 120)


def test_a_driver_of_unknown_life_is_neither_killed_nor_considered_dead() -> None:
    """A driver whose life is unknown is neither killed nor taken for dead after the deadline; the stop reports that its
    end cannot be proven.
    """
    assert isinstance(act(Life.UNKNOWN, on="one: drain", waited_s=121), Unprovable)


def test_a_proven_end_is_recorded_before_the_job_is_stopped() -> None:
    """The end of a dead or never started driver is recorded, and then the job is stopped."""
    for life in (Life.DEAD, Life.ABSENT):
        assert isinstance(act(life), RecordEnd)
    ended = InstanceEnded(operation="stop-1", instance="one", proof="gone", exit="drained")
    assert isinstance(act(Life.DEAD, ended), Stopped)


def test_a_stop_leaves_a_redeployed_or_started_job_alone() -> None:
    """A stop does not act on a job that has since been deployed or started."""
    assert isinstance(act(Life.ALIVE, *second()), TakenOver)
    assert isinstance(act(Life.ALIVE, DesiredChanged(serve=True, requested_by="bob", reason="")), TakenOver)
