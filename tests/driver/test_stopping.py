"""Tests stopping a query between two triggers, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamkeeper.driver.queries import Ended, ServedQuery


class Run:
    """A fake run of a query, either in the middle of a trigger or between two."""

    def __init__(self, *, triggered: bool) -> None:
        self.isActive = True
        self._jsq = SimpleNamespace(status=lambda: SimpleNamespace(isTriggerActive=lambda: triggered))

    def stop(self) -> None:
        self.isActive = False


@pytest.mark.parametrize(
    ("triggered", "busy", "stops"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_a_query_is_stopped_between_two_triggers_only(triggered: bool, busy: bool, stops: bool) -> None:
    """A query is stopped only between two triggers, because a stop within one would interrupt a batch that the gate has
    admitted, or the planning of the next batch.
    """
    planned: Any = SimpleNamespace(query=SimpleNamespace(name="totals"))
    gate, unused, run = SimpleNamespace(busy=busy), None, Run(triggered=triggered)
    given: Any = (planned, unused, unused, gate, unused, unused, unused, unused, {})
    query = ServedQuery(*given)
    started: Any = run
    query._run = started
    assert query.stop_in_gap() is stops
    assert (run.isActive, query.ended) == ((False, Ended.DRAINED) if stops else (True, None))
