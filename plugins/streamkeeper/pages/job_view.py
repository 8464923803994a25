"""Values for the page of a job: status, release, findings and snapshots. Pure.

Texts may come from any source. They are masked before they are shown, and templates escape them.
"""

from __future__ import annotations

import msgspec

from streamkeeper.compatibility.differences import Difference
from streamkeeper.compatibility.report import strictest_first, told_way
from streamkeeper.health.health_rule import tell_span
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.protocol.driver_messages import QueryStatus
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.redaction import Structure
from streamkeeper.model.secret_names import shown_value
from streamkeeper.model.watch.fleet_words import tell_status
from streamkeeper.operations.backups.snapshot_rows import ListedSnapshot, moment_taken
from streamkeeper.operations.deploys.findings import OperationFindings
from streamkeeper.operations.jobs.overview import JobOverview
from streamkeeper.operations.jobs.overview_facts import Fact, overview_facts
from streamkeeper.pages.fleet_view import TONES

_IN_THE_HEAD = ("job", "status")


class QueryStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The duration, rates and lag of one query, from the last report of its driver. Unknown values are empty."""

    query: Structure
    """The query's name."""
    version: Structure
    """Its checkpoint version."""
    epoch: int
    """Its epoch."""
    batch: Structure
    """Its last committed batch."""
    took: Structure
    """Duration of the last batch."""
    due: Structure
    """The trigger."""
    rates: Structure
    """Rows per second, input and processed."""
    behind: Structure
    """The lag."""
    state_rows: int
    """Rows of state."""
    checkpoint: Structure
    """Share of the batch duration spent on checkpoint writes."""
    dropped: int
    """Rows dropped as late."""
    error: str
    """The last error."""


class StandingView(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a job."""

    standing: Structure
    """The status in one word."""
    tone: Structure
    """CSS class of the status."""
    facts: tuple[Fact, ...]
    """The facts that ``streamkeeper status`` prints."""
    queries: tuple[QueryStanding, ...]
    """Its queries."""


class ReleaseView(msgspec.Struct, frozen=True, kw_only=True):
    """The current release."""

    release: Structure
    """Its name."""
    facts: tuple[tuple[str, str], ...]
    """Name and text of each fact about its code and environment."""
    params: tuple[tuple[str, str], ...]
    """Name and shown value of each param."""
    conf: tuple[tuple[str, str], ...]
    """Name and shown value of each conf."""


class QueryFindings(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one query in the newest assessment."""

    query: Structure
    """The query's name."""
    verdict: Structure
    """Its verdict."""
    goes: str
    """Its transition, as a phrase; empty if there is none."""
    findings: tuple[Finding, ...]
    """Its findings, the most severe first."""


class FindingsView(msgspec.Struct, frozen=True, kw_only=True):
    """The newest assessment of a job."""

    operation: Structure
    """The assessed operation."""
    release: Structure
    """Its release."""
    before: Structure
    """The release that it was compared with."""
    decision: str
    """The decision of the operation."""
    refusal: str
    """Why no transition is possible; empty if one is possible."""
    queries: tuple[QueryFindings, ...]
    """Findings by query."""
    differences: tuple[Difference, ...]
    """Differences in params, confs, code and plans."""
    undiffered: str
    """Why the differences are unknown; empty if they are known."""


class SnapshotLine(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot."""

    name: Structure
    """Its name."""
    error: str = ""
    """Why it cannot be read; empty if it can."""
    batch: int = -1
    """Its batch."""
    version: Structure = ""
    """Its checkpoint version."""
    release: Structure = ""
    """The release that wrote it."""
    taken: float | None = None
    """When it was taken, seconds since 1970."""
    bytes: int = 0
    """Its size."""
    stored: int = 0
    """Bytes that it added to the store."""
    verified: bool | None = None
    """Whether a drill has verified it; None without a drill."""
    drill: str = ""
    """Its last drill."""
    keep: bool = True
    """Whether retention keeps it."""
    kept: str = ""
    """Why retention keeps it or does not keep it."""


class SeriesView(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshots of one query, newest first; ``unread``: why they cannot be listed."""

    query: Structure
    snapshots: tuple[SnapshotLine, ...] = ()
    unread: str = ""


def view_standing(seen: JobOverview) -> StandingView:
    """Return the status view of an observed job."""
    beat = str(seen.status.beat) if seen.status is not None else ""
    queries = sorted(seen.status.queries.items()) if seen.status is not None else []
    return StandingView(
        standing=tell_status(seen.standing),
        tone=TONES[seen.standing],
        facts=tuple(fact for fact in overview_facts(seen, beat=beat) if fact.name not in _IN_THE_HEAD),
        queries=tuple(_query_standing(name, query) for name, query in queries),
    )


def _query_standing(name: str, query: QueryStatus) -> QueryStanding:
    signals = query.signals
    measured = signals.last_trigger is not None
    return QueryStanding(
        query=name,
        version=query.version,
        epoch=query.epoch,
        batch="" if query.committed is None else f"{query.committed:,}",
        took=f"{signals.batch_s:.1f} s" if measured else "",
        due=f"every {signals.trigger_s:g} s" if signals.trigger_s else "as soon as possible" if measured else "",
        rates=f"{signals.input_rows_per_s:,.0f} in, {signals.processed_rows_per_s:,.0f} processed" if measured else "",
        behind=tell_span(signals.lag_s) if signals.lag_s is not None else "",
        state_rows=query.state_rows,
        checkpoint=f"{signals.checkpoint_share:.0%}" if measured else "",
        dropped=signals.dropped_rows,
        error=query.error,
    )


def view_release(state: JobState) -> ReleaseView | None:
    """Return the view of a job's current release; None without a current release."""
    release = state.releases.get(state.serving_release)
    if release is None:
        return None
    content, made = release.content, release.content.environment
    health = ", ".join(
        f"{rule} {'off' if threshold is None else f'{threshold:g}'}"
        for rule, threshold in sorted(content.health.items())
    )
    facts = (
        ("job file", content.entry),
        ("code", content.bundle[:12]),
        ("made in", f"Python {made.python}, Spark {made.spark}"),
        ("thresholds", health),
        ("may answer", ", ".join(content.approvers)),
    )
    return ReleaseView(
        release=release.name,
        facts=tuple(fact for fact in facts if fact[1]),
        params=tuple((key, shown_value(key, value)) for key, value in sorted(content.params.items())),
        conf=tuple((key, shown_value(key, value)) for key, value in sorted(content.conf.items())),
    )


def view_findings(found: OperationFindings) -> FindingsView:
    """Return the findings of an operation by query."""
    return FindingsView(
        operation=found.operation,
        release=found.release,
        before=found.before,
        decision=found.decision,
        refusal=found.refusal,
        queries=tuple(
            QueryFindings(
                query=query,
                verdict=assessed.verdict.name,
                goes=told_way(found.transitions[query]) if query in found.transitions else "",
                findings=tuple(strictest_first(assessed)),
            )
            for query, assessed in sorted(found.assessment.queries.items())
        ),
        differences=found.differences,
        undiffered=found.undiffered,
    )


def view_snapshot(row: ListedSnapshot) -> SnapshotLine:
    """Return one line of the snapshot table."""
    if row.snapshot is None:
        return SnapshotLine(name=row.name, error=row.error, kept=row.told_kept)
    return SnapshotLine(
        name=row.name,
        batch=row.snapshot.batch,
        version=row.snapshot.version,
        release=row.snapshot.release,
        taken=moment_taken(row.snapshot).timestamp(),
        bytes=row.snapshot.bytes,
        stored=row.snapshot.stored,
        verified=row.verified,
        drill=row.told_drill,
        keep=row.keep,
        kept=row.told_kept,
    )
