"""Tests when a driver is restarted: a table of causes and budgets."""

from __future__ import annotations

import pytest

from streamkeeper.model.protocol.driver_messages import DriverState, ExitCode, cause_of_code
from streamkeeper.model.protocol.restart_budgets import Cause, RestartPolicy
from streamkeeper.runners.restarts import Next, RestartDecision, Spent, decide

POLICY = RestartPolicy()
FRESH = Spent()
MEANT = (ExitCode.DRAINED, ExitCode.FINISHED, ExitCode.STOPPED)
DOWN = (ExitCode.STORE_LOST, ExitCode.DEPENDENCY_DOWN)


def after(code: int, spent: Spent = FRESH, *, now: float = 0.0, ran_s: float = 1.0, budget: int = 5) -> RestartDecision:
    """Return the decision that follows this exit."""
    return decide(code, spent, now=now, ran_s=ran_s, budget=budget, policy=POLICY)


def series(code: int, times: int, *, every_s: float = 0.0, ran_s: float = 1.0) -> list[RestartDecision]:
    """Return the decisions that follow repeated exits, until the instance terminates."""
    found: list[RestartDecision] = []
    for number in range(times):
        spent = found[-1].spent if found else Spent()
        found.append(after(code, spent, now=number * every_s, ran_s=ran_s))
        if found[-1].next is Next.END:
            break
    return found


@pytest.mark.parametrize("code", [*MEANT, ExitCode.FENCED, ExitCode.REFUSED])
def test_an_intended_exit_fence_or_refusal_terminates_the_instance(code: ExitCode) -> None:
    """An intended exit, a fence or a refusal terminates the instance whatever budget is left, and only an intended exit
    has no cause.
    """
    decision = after(code)
    assert decision.next is Next.END
    assert decision.state.terminal
    assert decision.cause is (None if code in MEANT else Cause.PERMANENT)


@pytest.mark.parametrize("code", [ExitCode.FENCED, ExitCode.REFUSED])
def test_a_permanent_exit_is_not_restarted_and_its_reason_omits_restarts(code: ExitCode) -> None:
    """The reason of a permanent exit does not mention restarts, so that it does not suggest a crash loop."""
    assert "restart" not in after(code, Spent(failures=5)).reason


@pytest.mark.parametrize("code", [ExitCode.FAILED, 1, 127, -9, -11])
def test_a_failure_is_a_restart_until_the_budget_is_used_up(code: int) -> None:
    """Failures are restarted with doubling pauses, and after 5 restarts the instance has failed."""
    decisions = series(code, 10)
    assert [each.pause_s for each in decisions[:-1]] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert (decisions[-1].next, decisions[-1].state) == (Next.END, DriverState.FAILED)
    assert "5 restarts" in decisions[-1].reason
    assert {each.cause for each in decisions} == {Cause.FAILURE}


def test_a_long_healthy_run_gives_the_budget_back() -> None:
    """A driver that fails after a long healthy run regains its full budget and is restarted after the shortest
    pause.
    """
    decisions = series(1, 50, ran_s=POLICY.refill_s)
    assert {(each.next, each.pause_s) for each in decisions} == {(Next.RESTART, 1.0)}


def test_a_crash_loop_slower_than_the_window_ends_too() -> None:
    """Negative control: a driver that fails every four minutes does not regain its budget and is eventually given
    up.
    """
    assert series(1, 50, every_s=240.0, ran_s=235.0)[-1].next is Next.END


@pytest.mark.parametrize("code", DOWN)
def test_a_dependency_that_is_down_costs_no_restart(code: ExitCode) -> None:
    """An unavailable dependency is retried with growing pauses for at most 24 h, without using up or resetting the
    budget for failures.
    """
    spent = Spent(failures=5)
    for number in range(1000):
        decision = after(code, spent, now=number * 80.0)
        assert (decision.next, decision.cause) == (Next.RESTART, Cause.DEPENDENCY)
        assert decision.pause_s <= POLICY.dependency_longest_s
        spent = decision.spent
    assert spent.failures == 5
    late = after(code, spent, now=POLICY.dependency_limit_s)
    assert (late.next, late.cause) == (Next.END, Cause.DEPENDENCY)
    assert "has not answered for 24.0 h" in late.reason


def test_an_outage_reported_as_a_plain_failure_uses_up_the_budget() -> None:
    """Negative control: the same outage, reported as a plain failure, uses up the budget within 180 s."""
    ended = series(ExitCode.FAILED, 100, every_s=30.0)
    assert len(ended) * 30.0 <= 180.0
    assert ended[-1].next is Next.END


def test_a_machine_without_room_has_long_pauses_and_a_budget_of_its_own() -> None:
    """A lack of capacity is retried with long pauses and a budget of its own, which does not affect the budget for
    failures.
    """
    decisions = series(ExitCode.NO_CAPACITY, 1000)
    assert [each.pause_s for each in decisions[:6]] == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0]
    assert len(decisions) == POLICY.capacity_budget + 1
    assert decisions[-1].next is Next.END
    assert decisions[-1].spent.failures == 0
    assert {each.cause for each in decisions} == {Cause.CAPACITY}


def test_budgets_do_not_mix() -> None:
    """Failures, outages and lack of capacity are counted separately."""
    spent = Spent()
    for code in (1, ExitCode.DEPENDENCY_DOWN, ExitCode.NO_CAPACITY, 1, ExitCode.STORE_LOST):
        spent = after(code, spent).spent
    assert (spent.failures, spent.waits, spent.without_room) == (2, 2, 1)


def test_the_reason_of_an_exit_distinguishes_a_signal_from_an_exit_code() -> None:
    """The reason of an exit distinguishes a signal from an exit code."""
    assert "signal 9" in after(-9).reason
    assert "exit code 5" in after(5).reason


def test_every_exit_code_has_a_cause_unless_the_exit_is_intended() -> None:
    """Every exit code has a cause unless the exit is intended, and an unknown code counts as a failure."""
    assert {code for code in ExitCode if cause_of_code(code) is None} == set(MEANT)
    assert cause_of_code(99) is Cause.FAILURE
