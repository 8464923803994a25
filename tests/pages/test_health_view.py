"""Tests the health of a job as its page shows it, from the watch's index."""

from __future__ import annotations

import pytest

from streamkeeper.model.watch.fleet_index import FleetIndex, JobMemory, JobRow
from streamkeeper.model.watch.health import Symptom, Urgency
from streamkeeper.model.watch.incident import JobIncidents, OpenIncident
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.pages.health_view import HealthView, view_health

AT = 1_800_000_000.0
SYMPTOM = Symptom(
    rule="stalled", severity=Urgency.PAGE, job="orders", query="totals", cause="no trigger", action="restart it",
    heading="A job stands still",
)  # fmt: skip


def view(*, now: float = AT + 30, **row: object) -> HealthView:
    found = JobRow(**{"job": "orders", "standing": JobStatus.SERVING, "release": "r0001", "seen_at": AT, **row})  # type: ignore[arg-type]
    return view_health(FleetIndex(number=1, started=AT - 5, rows=(found,)), "orders", now=now)


def test_a_symptom_is_shown_with_its_incident_and_the_actions() -> None:
    """A symptom is shown with the start of its incident and the actions taken; a symptom of the same rule at a
    different query has no incident of its own.
    """
    other = Symptom(
        **{name: getattr(SYMPTOM, name) for name in SYMPTOM.__struct_fields__ if name != "query"}, query="b"
    )
    incident = OpenIncident(symptom=SYMPTOM, raised_at=AT - 60, told_at=AT, acts=("restarted",))
    known = JobIncidents(job="orders", open={SYMPTOM.key: incident})
    one, two = view(symptoms=(SYMPTOM, other), memory=JobMemory(incidents=known)).symptoms
    assert (one.severity, one.tone, one.since, one.acts) == ("page", "bad", AT - 60, ("restarted",))
    assert (two.query, two.since, two.acts) == ("b", None, ())


@pytest.mark.parametrize(("seconds", "stale"), [(0.0, False), (179.0, False), (181.0, True)])
def test_the_age_of_the_last_check_is_shown_and_never_negative(seconds: float, stale: bool) -> None:
    """The age of the last check is shown, is never negative when clocks differ, and counts as out of date after 180
    s.
    """
    found = view(now=AT + seconds)
    assert (found.age_s, found.stale) == (seconds, stale)
    assert view(now=AT - 9).age_s == 0


def test_a_job_that_was_never_checked_is_not_reported_as_healthy() -> None:
    """A job is reported as not yet checked before the first pass, and if it is missing from the last pass."""
    assert "no pass yet" in view_health(None, "orders", now=AT).unseen
    assert "is not in the last pass" in view_health(FleetIndex(number=1, started=AT), "orders", now=AT).unseen
    assert view().unseen == ""
