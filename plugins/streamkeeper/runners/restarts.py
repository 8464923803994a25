"""Decides whether a driver that has terminated is restarted: a pure rule, with a budget for each cause.

A failure is retried within a budget that a long healthy run refills. Waiting for an unavailable dependency does not use
up that budget. Waiting for capacity of the machine has its own budget. A permanent error is not retried.
"""

from __future__ import annotations

import errno
from enum import Enum

import msgspec

from streamkeeper.model.protocol.driver_messages import DriverState, ExitCode, cause_of_code
from streamkeeper.model.protocol.restart_budgets import Cause, RestartPolicy, pause

_LAST_WORDS = {
    ExitCode.DRAINED: DriverState.DRAINED,
    ExitCode.FINISHED: DriverState.FINISHED,
    ExitCode.FENCED: DriverState.FENCED,
    ExitCode.STOPPED: DriverState.STOPPED,
    ExitCode.REFUSED: DriverState.FAILED,
}


class Next(Enum):
    """What the supervisor does after a driver process has terminated."""

    END = "end"
    RESTART = "restart"


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """The restarts and waits that count against the budgets.

    Only those count that happened after the driver last ran for at least the policy's ``refill_s`` seconds.
    """

    failures: int = 0
    """Restarts after failures."""
    without_room: int = 0
    """Restarts after the machine had no capacity for the driver."""
    waits: int = 0
    """Waits for a dependency."""
    waited_from: float | None = None
    """When the first of these waits started, by the clock passed to ``decide``."""


class RestartDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor does after a driver process has terminated, with the reason."""

    next: Next
    """Whether to end or to restart."""
    reason: str
    """The reason, for people."""
    cause: Cause | None
    """The kind of error; None for an intended end."""
    spent: Spent
    """The used budgets, to be passed to the next decision."""
    state: DriverState = DriverState.FAILED
    """The instance's final state; only for END."""
    pause_s: float = 0.0
    """Seconds to wait first; only for RESTART."""


def decide(code: int, spent: Spent, *, now: float, ran_s: float, budget: int, policy: RestartPolicy) -> RestartDecision:
    """Decide what follows the exit of a driver process.

    ``code``: its exit code. If a signal terminated it, minus the signal's number.
    ``spent``: the restarts and waits that are already used.
    ``now``: the time in seconds, by any monotonic clock.
    ``ran_s``: how many seconds the process ran.
    ``budget``: the allowed restarts after failures.
    ``policy``: the limits and pauses.
    """
    if ran_s >= policy.refill_s:
        spent = Spent()
    if code in _LAST_WORDS:
        ending = ExitCode(code)
        reason = "the driver ended with a permanent error"
        if ending is not ExitCode.REFUSED:
            reason = f"the driver ended: {ending.name.lower()}"
        return RestartDecision(
            next=Next.END, reason=reason, cause=cause_of_code(code), spent=spent, state=_LAST_WORDS[ending]
        )
    match cause_of_code(code):
        case Cause.DEPENDENCY:
            return _wait(code, spent, now, policy)
        case Cause.CAPACITY:
            return _find_room(spent, policy)
        case _:
            return _try_again(code, spent, budget, policy)


def describe_code(code: int) -> str:
    """Describe an exit code in words; a negative code is minus the number of the signal that terminated the process."""
    return f"the driver was terminated by signal {-code}" if code < 0 else f"the driver failed with exit code {code}"


def _wait(code: int, spent: Spent, now: float, policy: RestartPolicy) -> RestartDecision:
    began = now if spent.waited_from is None else spent.waited_from
    what = "the store" if code == ExitCode.STORE_LOST else "a dependency"
    cause, waited_s = Cause.DEPENDENCY, now - began
    if waited_s >= policy.dependency_limit_s:
        reason = f"{what} has not answered for {waited_s / 3600:.1f} h"
        return RestartDecision(next=Next.END, reason=reason, cause=cause, spent=spent)
    pause_s = pause(policy.dependency_pause_s, policy.dependency_longest_s, spent.waits)
    after = msgspec.structs.replace(spent, waits=spent.waits + 1, waited_from=began)
    reason = f"{what} does not answer; retrying in {pause_s:g} s without using up a restart"
    return RestartDecision(next=Next.RESTART, reason=reason, cause=cause, spent=after, pause_s=pause_s)


def _find_room(spent: Spent, policy: RestartPolicy) -> RestartDecision:
    cause, tried = Cause.CAPACITY, spent.without_room
    if tried >= policy.capacity_budget:
        reason = f"the machine has no capacity for the driver, after {tried} attempts"
        return RestartDecision(next=Next.END, reason=reason, cause=cause, spent=spent)
    pause_s = pause(policy.capacity_pause_s, policy.capacity_longest_s, tried)
    after = msgspec.structs.replace(spent, without_room=tried + 1)
    reason = f"the machine has no capacity for the driver; retrying in {pause_s:g} s"
    return RestartDecision(next=Next.RESTART, reason=reason, cause=cause, spent=after, pause_s=pause_s)


def _try_again(code: int, spent: Spent, budget: int, policy: RestartPolicy) -> RestartDecision:
    cause, failures, what = Cause.FAILURE, spent.failures, describe_code(code)
    if failures >= budget:
        reason = f"{what}; {failures} restarts without a healthy run of {policy.refill_s / 60:g} min used up"
        return RestartDecision(next=Next.END, reason=reason, cause=cause, spent=spent)
    pause_s = pause(policy.failure_pause_s, policy.failure_longest_s, failures)
    after = msgspec.structs.replace(spent, failures=failures + 1)
    reason = f"{what}; restart {failures + 1} of {budget}"
    return RestartDecision(next=Next.RESTART, reason=reason, cause=cause, spent=after, pause_s=pause_s)


def code_without_start(error: Exception) -> int:
    """Return the exit code of a driver that could not be started at all."""
    cause = error.__cause__
    no_room = isinstance(cause, OSError) and cause.errno in (errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EMFILE)
    return ExitCode.NO_CAPACITY if no_room else 127
