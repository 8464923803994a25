"""Tests the single access to time, which is the real clock by default and can be replaced within a block."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from streamkeeper.system import clock


class Stopped:
    """A clock that only ``sleep`` moves."""

    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def unix(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def test_without_another_clock_the_time_is_the_machines() -> None:
    """Without a replacement, all four functions use the machine's clock."""
    assert abs(clock.unix() - time.time()) < 5
    assert abs(clock.monotonic() - time.monotonic()) < 5
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
    began = time.monotonic()
    clock.sleep(0.01)
    assert time.monotonic() - began >= 0.01


def test_a_replaced_clock_is_used_within_its_block_only() -> None:
    """A replaced clock is used within its block only: blocks nest, and each restores the earlier clock, even after an
    error.
    """
    with clock.use(Stopped(10.0)):
        clock.sleep(5.0)
        with clock.use(Stopped(99.0)):
            assert (clock.unix(), clock.monotonic()) == (99.0, 99.0)
        with pytest.raises(ZeroDivisionError), clock.use(Stopped(0.0)):
            clock.sleep(1 / clock.unix())
        assert clock.unix() == 15.0
        assert clock.now() == datetime(1970, 1, 1, 0, 0, 15, tzinfo=UTC)
    assert clock.unix() > 1_700_000_000
