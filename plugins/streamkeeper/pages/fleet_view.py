"""The rows of the fleet page: the jobs in the watch's index, filtered and sorted. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal
from urllib.parse import urlencode

from streamkeeper.model.names import shorten
from streamkeeper.model.records.step import label_of
from streamkeeper.model.watch.fleet_index import PASS_OVERDUE_S, FleetIndex, JobRow
from streamkeeper.model.watch.fleet_words import (
    share_of_trigger,
    slowest,
    tell_batch,
    tell_commit,
    tell_lag,
    tell_status,
    tell_verified,
)
from streamkeeper.model.watch.health import Urgency
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.model.watch.quantities import least, most, tell_age, total

ROWS = 100
"""Jobs per page; more would slow down the browser."""
STALE_S = PASS_OVERDUE_S

Health = Literal["", "wrong", "page", "ticket", "info", "well"]
UnderWay = Literal["", "open", "waits"]
Column = Literal[
    "health", "job", "standing", "release", "lag", "batch", "rows", "commit", "verified", "operation", "owner"
]
COLUMNS: dict[Column, str] = {
    "job": "Job",
    "standing": "Status",
    "release": "Release",
    "health": "Health",
    "lag": "Lag",
    "batch": "Batch duration",
    "rows": "Rows/s",
    "commit": "Last commit",
    "verified": "Verified backup",
    "operation": "In progress",
    "owner": "Owner",
}
"""Column -> heading, in the table's order."""
LARGEST_FIRST: frozenset[Column] = frozenset({"lag", "batch", "rows"})
"""Columns that sort their largest value first."""
NUMBERS: frozenset[Column] = frozenset({"lag", "batch", "rows", "commit", "verified"})

TONES = {
    JobStatus.NOT_DEPLOYED: "",
    JobStatus.STARTING: "warn",
    JobStatus.SERVING: "good",
    JobStatus.RESTARTING: "warn",
    JobStatus.WAITING: "warn",
    JobStatus.DRAINING: "warn",
    JobStatus.FINISHED: "good",
    JobStatus.FAILED: "bad",
    JobStatus.ENDED: "warn",
    JobStatus.STOPPED: "",
    JobStatus.UNKNOWN: "warn",
}
"""Status -> its CSS class in ``page.css``: good, warn, bad, or none."""
SEVERITY_TONES = {Urgency.PAGE: "bad", Urgency.TICKET: "warn", Urgency.INFO: ""}


@dataclass(frozen=True, slots=True)
class FleetFilter:
    """Filter and order of the fleet page. The page's address uses the names of these fields, and omits
    default values.
    """

    search: str = ""
    """A part of the job's name, owner or release, or of the cause of a symptom."""
    standing: JobStatus | Literal[""] = ""
    """Only jobs with this status."""
    health: Health = ""
    """Only jobs with this health."""
    under_way: UnderWay = ""
    """Only jobs with an open operation, or only jobs with an operation that waits for a person."""
    owner: str = ""
    """Only jobs of this owner."""
    sort: Column = "health"
    """The column by which the rows are sorted."""
    turned: bool = False
    """Whether the order is reversed."""
    page: int = 1
    """The page, starting at 1."""

    def address(self, **changes: Any) -> str:
        """Return the query string of this filter after ``changes`` to its fields, such as ``?search=orders&sort=lag``;
        ``?`` if all values are defaults."""
        changed = replace(self, **changes)
        values = {field.name: getattr(changed, field.name) for field in fields(self)}
        said = {name: each for name, each in values.items() if each != _DEFAULTS[name]}
        return "?" + urlencode({name: _in_address(each) for name, each in said.items()})


_DEFAULTS = {field.name: field.default for field in fields(FleetFilter)}


@dataclass(frozen=True, slots=True)
class ShownJob:
    """One row of the fleet as text."""

    job: str
    """The job's name."""
    owner: str
    """The person who deployed the current release."""
    standing: str
    """The status."""
    tone: str
    """CSS class of the status."""
    stopped: str
    """Who stopped the job and why; empty if it should run."""
    release: str
    """The current release."""
    desired: str
    """The requested release if it differs from the current release; otherwise empty."""
    health: str
    """The worst severity, ``healthy`` or ``not checked``."""
    health_tone: str
    """CSS class of the health."""
    rule: str
    """Rule and query of the first symptom."""
    cause: str
    """Cause of the first symptom; without symptoms, the note of a rebuilt journal."""
    heading: str
    """Runbook heading of the first symptom."""
    more: int
    """Number of further symptoms."""
    error: str
    """The last reported error, unless the cause contains it."""
    unlooked: str
    """Parts that were not checked, and why."""
    lag: str
    """Lag of the query that is furthest behind."""
    batch: str
    """Duration of the slowest query's last batch, and its trigger interval."""
    late: bool
    """Whether batches take longer than the trigger interval."""
    rows: str
    """Rows per second over all queries."""
    commit: str
    """The age of the last commit, for the query whose last commit is the oldest."""
    verified: str
    """The age of the newest verified backup, for the query for which it is the oldest; ``none`` if a query has no
    verified backup.
    """
    verified_tone: str
    """CSS class of the verified backup."""
    operation: str
    """Id of the open operation; empty if there is no open operation."""
    step: str
    """The operation in progress, its step and duration."""
    waits: bool
    """Whether the operation waits for a person."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """One page of the fleet."""

    rows: tuple[ShownJob, ...]
    """The jobs of this page."""
    found: int
    """Number of jobs that match the filter."""
    jobs: int
    """Number of all jobs."""
    pages: int
    """Number of pages."""
    page: int
    """Number of this page."""
    owners: tuple[str, ...]
    """Owners of all jobs."""
    forgotten: int
    """Number of forgotten jobs, which are not shown."""
    age_s: float
    """Age of the observation, seconds."""
    pass_age_s: float
    """Age of the last pass that could send notices, seconds."""
    stale: bool
    """Whether a pass that could send notices is overdue."""
    failed: tuple[str, ...]
    """The failures that the last pass reported."""


def view_fleet(index: FleetIndex, chosen: FleetFilter, *, now: float) -> FleetView:
    """Return one page of the fleet, or the last page if the requested number is larger; ``now``: seconds since 1970."""
    known = [row for row in index.rows if not row.forgotten]
    found = [row for row in known if _is_chosen(row, chosen)]
    in_order = _sorted(found, chosen)
    pages = max(1, -(-len(found) // ROWS))
    page = min(max(1, chosen.page), pages)
    pass_age_s = index.pass_age_s(now)
    return FleetView(
        rows=tuple(_shown(row, index.started) for row in in_order[(page - 1) * ROWS : page * ROWS]),
        found=len(found),
        jobs=len(known),
        pages=pages,
        page=page,
        owners=tuple(sorted({row.owner for row in known if row.owner})),
        forgotten=len(index.rows) - len(known),
        age_s=max(0.0, now - index.started),
        pass_age_s=pass_age_s,
        stale=pass_age_s > STALE_S,
        failed=index.failed,
    )


def _is_chosen(row: JobRow, chosen: FleetFilter) -> bool:
    if chosen.standing and row.standing is not chosen.standing:
        return False
    if chosen.owner and row.owner != chosen.owner:
        return False
    if chosen.under_way and not (row.operation and (chosen.under_way == "open" or _waits(row))):
        return False
    if chosen.health and not _has_health(row, chosen.health):
        return False
    words = chosen.search.casefold().split()
    if not words:
        return True
    causes = (text for symptom in row.symptoms for text in (symptom.rule, symptom.cause))
    searched = "\n".join((row.job, row.owner, row.release, row.operation, *causes)).casefold()
    return all(word in searched for word in words)


def _has_health(row: JobRow, health: Health) -> bool:
    match health:
        case "well":
            return row.worst is None and not row.unlooked
        case "wrong":
            return row.worst is not None or bool(row.unlooked)
        case _:
            return row.worst is not None and row.worst.value == health


def _waits(row: JobRow) -> bool:
    return row.under_way is not None and row.under_way.waits_for_person


def _sorted(rows: list[JobRow], chosen: FleetFilter) -> list[JobRow]:
    """Return the rows sorted by the column, then by name. Unknown values come last in both directions."""
    key = _KEYS[chosen.sort]
    named = sorted(rows, key=lambda row: row.job)
    known = [(value, row) for row in named if (value := key(row)) is not None]
    unknown = [row for row in named if key(row) is None]
    turned = chosen.turned is not (chosen.sort in LARGEST_FIRST)
    known.sort(key=lambda pair: pair[0], reverse=turned)
    return [row for _, row in known] + unknown


def _health_order(row: JobRow) -> int:
    """Return a job's rank: jobs with symptoms by severity first, then jobs that wait for a person, then jobs that were
    not fully checked, then healthy jobs.
    """
    severities = list(Urgency)
    if row.worst is not None:
        return severities.index(row.worst)
    return len(severities) + (0 if _waits(row) else 1 if row.unlooked else 2)


def _batch_share(row: JobRow) -> float | None:
    query = slowest(row.queries.values())
    return share_of_trigger(query) if query is not None else None


def _verified_at(row: JobRow) -> float | None:
    """Return, in seconds since 1970, when the newest verified snapshot of a query was taken, for the query for which
    that time is the earliest.

    0 if a query has no verified snapshot; None if the snapshots are unknown.
    """
    if not row.queries or not all(query.snapshots_known for query in row.queries.values()):
        return None
    return min(query.verified_at or 0.0 for query in row.queries.values())


def _rows_per_s(row: JobRow) -> float | None:
    return total(query.rows_per_s for query in row.queries.values())


_STANDINGS = list(JobStatus)
_KEYS: dict[Column, Callable[[JobRow], Any]] = {
    "health": _health_order,
    "job": lambda row: row.job,
    "standing": lambda row: _STANDINGS.index(row.standing),
    "release": lambda row: row.release or None,
    "lag": lambda row: most(query.lag_s for query in row.queries.values()),
    "batch": _batch_share,
    "rows": _rows_per_s,
    "commit": lambda row: least(query.committed_at for query in row.queries.values()),
    "verified": _verified_at,
    "operation": lambda row: (not _waits(row), row.under_way.began_at) if row.under_way is not None else None,
    "owner": lambda row: row.owner or None,
}


def _shown(row: JobRow, now: float) -> ShownJob:
    queries = list(row.queries.values())
    first = row.symptoms[0] if row.symptoms else None
    health, health_tone = _told_health(row)
    error = row.error.text if row.error is not None and (first is None or row.error.text not in first.cause) else ""
    verified = tell_verified(queries, now)
    query, rows = slowest(queries), _rows_per_s(row)
    share = share_of_trigger(query) if query is not None else None
    return ShownJob(
        job=row.job,
        owner=row.owner,
        standing=tell_status(row.standing),
        tone=TONES[row.standing],
        stopped=row.stopped,
        release=row.release,
        desired=row.desired if row.desired != row.release else "",
        health=health,
        health_tone=health_tone,
        rule=(f"{first.rule} ({first.query})" if first.query else first.rule) if first is not None else "",
        cause=shorten(first.cause, 300) if first is not None else row.rebuilt,
        heading=first.heading if first is not None else "",
        more=max(0, len(row.symptoms) - 1),
        error=shorten(error, 200),
        unlooked="; ".join(f"{part}: {why}" for part, why in row.unlooked.items()),
        lag=tell_lag(queries),
        batch=tell_batch(query),
        late=share is not None and share > 1,
        rows="-" if rows is None else f"{rows:,.0f}" if rows >= 10 or rows == 0 else f"{rows:.1f}",
        commit=tell_commit(queries, now),
        verified=verified,
        verified_tone="warn" if verified == "none" else "",
        operation=row.operation,
        step=_told_step(row, now),
        waits=_waits(row),
    )


def _told_health(row: JobRow) -> tuple[str, str]:
    if row.worst is not None:
        return row.worst.value, SEVERITY_TONES[row.worst]
    if row.unlooked:
        return "not checked", "warn"
    return ("-", "") if row.standing in (JobStatus.NOT_DEPLOYED, JobStatus.STOPPED) else ("healthy", "good")


def _told_step(row: JobRow, now: float) -> str:
    facts = row.under_way
    if facts is None:
        return row.operation
    return f"{facts.kind} at {label_of(facts.step)} for {tell_age(now - facts.began_at)}"


def _in_address(value: object) -> str:
    match value:
        case JobStatus():
            return value.value
        case bool():
            return "1" if value else ""
        case _:
            return str(value)
