"""Tests when the scheduled DAGs run: by default, on the installation's own schedule, or never."""

from __future__ import annotations

import pytest

from streamkeeper.errors import InvalidInput

pytestmark = pytest.mark.airflow
VARIABLE = "STREAMKEEPER_BACKUP_SCHEDULE"


@pytest.mark.parametrize(
    ("text", "schedule"),
    [("", "@hourly"), ("never", None), ("None", None), ("*/5 * * * *", "*/5 * * * *"), (" @daily ", "@daily")],
)
def test_the_schedule_variable_sets_or_disables_scheduled_runs(text: str, schedule: str | None) -> None:
    """An unset or empty variable means the default schedule, and ``never`` or ``None`` disables scheduled runs."""
    from streamkeeper.orchestration.schedules import read_schedule

    assert read_schedule(VARIABLE, "@hourly", {VARIABLE: text}) == schedule
    assert read_schedule(VARIABLE, "@hourly", {}) == "@hourly"


@pytest.mark.parametrize("text", ["sometimes", "* * *", "61 * * * *"])
def test_an_invalid_schedule_is_refused_with_its_variable_and_value(text: str) -> None:
    """An invalid schedule is refused with one line that contains the variable, its value and a remedy."""
    from streamkeeper.orchestration.schedules import read_schedule

    with pytest.raises(
        InvalidInput, match="STREAMKEEPER_BACKUP_SCHEDULE=.* is not a schedule: .*or leave the variable out for @hourly"
    ):
        read_schedule(VARIABLE, "@hourly", {VARIABLE: text})
