"""The clock of all packages: the real one, or a virtual one while a simulation runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time that can also let time pass."""

    def now(self) -> datetime:
        """Return the present moment, in UTC and aware."""

    def unix(self) -> float:
        """Return the seconds since 1970."""

    def monotonic(self) -> float:
        """Return seconds that never go back; only differences have a meaning."""

    def sleep(self, seconds: float) -> None:
        """Let the time pass."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def unix(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


_clock: Clock = SystemClock()


def now() -> datetime:
    """Return the present moment, in UTC and aware."""
    return _clock.now()


def unix() -> float:
    """Return the seconds since 1970."""
    return _clock.unix()


def monotonic() -> float:
    """Return seconds that never go back; only differences have a meaning."""
    return _clock.monotonic()


def sleep(seconds: float) -> None:
    """Let the current thread sleep."""
    _clock.sleep(seconds)


@contextmanager
def use(other: Clock) -> Iterator[None]:
    """Use another clock in this block, in all threads of the process."""
    global _clock
    before, _clock = _clock, other
    try:
        yield
    finally:
        _clock = before
