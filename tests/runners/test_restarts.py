"""When a driver is started again."""

from __future__ import annotations

import pytest

from streamkeeper.model.control import DriverState, ExitCode
from streamkeeper.runners.restarts import LONGEST_PAUSE_S, WINDOW_S, Next, decide


@pytest.mark.parametrize("code", sorted(set(ExitCode) - {ExitCode.FAILED, ExitCode.STORE_LOST}))
def test_a_meant_end_is_an_end(code: ExitCode) -> None:
    """Whatever budget is left."""
    decision = decide(code, (), now=0.0, budget=5)
    assert decision.next is Next.END
    assert decision.state.terminal


@pytest.mark.parametrize("code", [ExitCode.FAILED, 1, 127, -9, -11])
def test_anything_else_is_a_restart_until_the_budget_is_used_up(code: int) -> None:
    """Pauses double; after the last restart the instance has failed."""
    failures: tuple[float, ...] = ()
    pauses = []
    for _ in range(7):
        decision = decide(code, failures, now=100.0, budget=7)
        assert decision.next is Next.RESTART
        pauses.append(decision.pause_s)
        failures += (100.0,)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    decision = decide(code, failures, now=100.0, budget=7)
    assert (decision.next, decision.state) == (Next.END, DriverState.FAILED)
    assert "7 restarts" in decision.reason


def test_old_failures_are_forgiven() -> None:
    """A driver that runs for weeks and fails once a day is always started again, after the shortest pause."""
    failures = tuple(-WINDOW_S * (n + 1) for n in range(20))
    decision = decide(1, failures, now=0.0, budget=1)
    assert (decision.next, decision.pause_s) == (Next.RESTART, 1.0)


def test_a_signal_is_named() -> None:
    """The reason tells a kill from an error."""
    assert "signal 9" in decide(-9, (), now=0.0, budget=5).reason
    assert "exit code 5" in decide(5, (), now=0.0, budget=5).reason


def test_a_lost_store_costs_no_restart() -> None:
    """However often the store goes away, the driver comes back with it."""
    used_up = tuple(float(second) for second in range(50))
    decision = decide(ExitCode.STORE_LOST, used_up, now=50.0, budget=5)
    assert (decision.next, decision.pause_s) == (Next.RESTART, 0.0)
