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


def test_a_driver_is_told_once_and_waited_for() -> None:
    """A stop sends one DRAIN command, even if the driver's life is unknown, and then waits for the drain."""
    for life in (Life.ALIVE, Life.UNKNOWN):
        assert act(life, sent=frozenset()) == Send("one", CommandKind.DRAIN)
        assert act(life) == Wait("one: drain", 120)


def test_past_the_deadline_it_is_killed_and_past_that_nobody_says_that_it_is_dead() -> None:
    """A driver that does not drain in time is killed, and if it survives the kill the stop reports that its end cannot
    be proven.
    """
    assert act(Life.ALIVE, on="one: drain", waited_s=121) == Kill("one")
    assert act(Life.ALIVE, on=kill_wait("one"), waited_s=1) == Kill("one")
    assert isinstance(act(Life.ALIVE, on=kill_wait("one"), waited_s=KILL_S + 1), Unprovable)


def test_a_driver_whose_processes_are_stopped_is_not_waited_for() -> None:
    """A driver whose processes are stopped is killed after ``HALTED_S``. Negative control: a running driver has the
    full 120 s.
    """
    assert act(Life.ALIVE, on="one: drain", waited_s=1, halted=True) == Wait("one: drain", HALTED_S)
    assert act(Life.ALIVE, on="one: drain", waited_s=HALTED_S + 1, halted=True) == Kill("one")
    assert act(Life.ALIVE, on="one: drain", waited_s=HALTED_S + 1) == Wait("one: drain", 120)


def test_what_runs_elsewhere_is_never_killed_nor_taken_for_dead() -> None:
    """A driver whose life is unknown is neither killed nor taken for dead after the deadline; the stop reports that its
    end cannot be proven.
    """
    assert isinstance(act(Life.UNKNOWN, on="one: drain", waited_s=121), Unprovable)


def test_an_end_is_recorded_once_it_is_proven_and_then_it_is_over() -> None:
    """The end of a dead or never started driver is recorded, and then the job is stopped."""
    for life in (Life.DEAD, Life.ABSENT):
        assert isinstance(act(life), RecordEnd)
    ended = InstanceEnded(operation="stop-1", instance="one", proof="gone", exit="drained")
    assert isinstance(act(Life.DEAD, ended), Stopped)


def test_whoever_decided_otherwise_is_left_alone() -> None:
    """A stop does not act on a job that has since been deployed or started."""
    assert isinstance(act(Life.ALIVE, *second()), TakenOver)
    assert isinstance(act(Life.ALIVE, DesiredChanged(serve=True, requested_by="bob", reason="")), TakenOver)
