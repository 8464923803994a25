"""Waits for conditions with a deadline, by the monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_FIRST_POLL_S = 0.01


def wait_for(what: str, look: Callable[[], T], timeout_s: float = 120.0, *, poll_s: float = 0.1) -> T:
    """Call ``look`` until it returns a truthy value, and return that; raises TimeoutError, naming what was waited for.

    It polls often at first, and then every ``poll_s`` seconds: most waits are short, and long ones should cost little.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = min(_FIRST_POLL_S, poll_s)
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, poll_s)
    return found


def wait_until(condition: Callable[[], bool], *, timeout_s: float, poll_s: float = 0.2) -> bool:
    """Return whether the condition became true in time; for callers that continue without it, or that report more about
    what is missing.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_s)
    return True
