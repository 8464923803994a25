"""The health of a job for its page: the symptoms of the watch's last pass, with remedies. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from streamkeeper.model.redaction import Structure
from streamkeeper.model.watch.fleet_index import FleetIndex, JobRow
from streamkeeper.operations.jobs.notices import runbook_link
from streamkeeper.pages.fleet_view import SEVERITY_TONES, STALE_S


class SymptomLine(msgspec.Struct, frozen=True, kw_only=True):
    """One symptom with its remedy."""

    severity: Structure
    """page, ticket or info."""
    tone: Structure
    """CSS class of the severity."""
    rule: Structure
    """The rule."""
    query: Structure
    """The query; empty for the whole job."""
    cause: str
    """The cause."""
    action: str
    """The remedy."""
    heading: Structure
    """The runbook's heading."""
    runbook: Structure
    """The runbook's file and heading."""
    since: float | None = None
    """Start of its incident, seconds since 1970; None without one."""
    acts: tuple[str, ...] = ()
    """Actions of the watch, newest last."""


class HealthView(msgspec.Struct, frozen=True, kw_only=True):
    """The health of one job."""

    age_s: float | None = None
    """Age of the watch's observation, seconds; None if there is none."""
    pass_age_s: float = 0.0
    """Age of the last pass that could send notices, seconds."""
    stale: bool = False
    """Whether a pass is overdue, so that the observation or the notices may be out of date."""
    unseen: str = ""
    """Why there is no observation of the job; empty if there is one."""
    symptoms: tuple[SymptomLine, ...] = ()
    """The symptoms."""
    unlooked: tuple[str, ...] = ()
    """Parts that were not checked, and why."""
    silent_s: float = 0.0
    """Age of the last heartbeat at the observation, seconds."""
    restarts: int = 0
    """Restarts of this driver."""
    restarts_lately: int = 0
    """Restarts of this driver in the last hour."""


def view_health(index: FleetIndex | None, job: str, *, now: float) -> HealthView:
    """Return the health of one job from the index of the last pass; ``now``: seconds since 1970."""
    if index is None:
        return HealthView(unseen="the watch has made no pass yet. Check that the watch runs")
    row = index.row(job)
    if row is None:
        return HealthView(unseen="this job is not in the last pass of the watch yet")
    age_s = max(0.0, now - (row.seen_at or index.started))
    # The job was observed after its pass began, so only the age of the pass of another watch is compared.
    pass_age_s = index.pass_age_s(now) if index.is_behind_airflow(now) else age_s
    return HealthView(
        age_s=age_s,
        pass_age_s=pass_age_s,
        stale=max(age_s, pass_age_s) > STALE_S,
        symptoms=tuple(_symptoms(row)),
        unlooked=tuple(f"{part}: {why}" for part, why in sorted(row.unlooked.items())),
        silent_s=row.silent_s,
        restarts=row.restarts,
        restarts_lately=row.restarts_lately,
    )


def _symptoms(row: JobRow) -> Iterator[SymptomLine]:
    incidents = row.memory.incidents.open if row.memory.incidents is not None else {}
    for symptom in row.symptoms:
        incident = incidents.get(symptom.key)
        yield SymptomLine(
            severity=symptom.severity.value,
            tone=SEVERITY_TONES[symptom.severity],
            rule=symptom.rule,
            query=symptom.query,
            cause=symptom.cause,
            action=symptom.action,
            heading=symptom.heading,
            runbook=runbook_link(symptom.heading),
            since=incident.raised_at if incident is not None else None,
            acts=incident.acts if incident is not None else (),
        )
