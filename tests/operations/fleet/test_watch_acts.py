"""Operations that the watch continues: how many at a time, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.operations.fleet import watch_acts
from streamkeeper.operations.fleet.watch_acts import Carried, carry_on
from tests.operations.registered_job import Registered


@pytest.mark.parametrize(("until", "begun", "failed"), [(0.0, 4, 2), (60.0, 5, 5)], ids=["one round", "to the end"])
def test_operations_above_the_limit_continue_as_earlier_ones_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: float, begun: int, failed: int
) -> None:
    """The watch continues two operations at a time, in order; an operation that fails makes room for the next, and none
    is left out.
    """
    monkeypatch.setattr(watch_acts, "AT_ONCE", 2)
    monkeypatch.setattr(watch_acts, "_PAUSE_S", 0.0)
    site = Registered(tmp_path).installation
    jobs = [f"job{number}" for number in range(5)]
    after, failures = carry_on(site, [Carried(job=job, operation="op") for job in jobs], now=lambda: 1.0, until=until)
    assert [carried.job for carried in after] == jobs[:begun]
    assert [line.partition(":")[0] for line in failures] == jobs[:failed]
