"""The row of an observed job in the list of jobs."""

from __future__ import annotations

from msgspec.structs import replace

from streamkeeper.model.protocol.driver_messages import QueryStatus
from streamkeeper.model.watch.fleet_index import JobMemory, JobRow, QueryRow, SnapshotFacts, ToldError
from streamkeeper.model.watch.health import JobLook, Symptom, worst
from streamkeeper.model.watch.quantities import total
from streamkeeper.model.watch.watched_facts import JobFacts
from streamkeeper.operations.fleet.fleet_look import WatchedJob

REMEMBERED_S = 24 * 3600.0
"""Seconds for which an error is shown after the driver has last reported it."""
LONGEST_ERROR = 2000
"""Largest length of an error in characters. It is limited because the index is replaced every minute; the driver's log
has the whole text.
"""


def make_row(seen: WatchedJob, look: JobLook, memory: JobMemory, symptoms: tuple[Symptom, ...]) -> JobRow:
    """Return the row of a job; ``memory``: as updated by ``remember_told``."""
    facts = seen.facts
    queries = seen.driver.status.queries if seen.driver.status is not None else {}
    return JobRow(
        job=seen.job,
        standing=seen.standing,
        release=facts.serving_release if facts is not None else "",
        instance=seen.instance,
        life=look.driver.life,
        why=look.driver.why,
        wanted=look.facts.wanted,
        stopped=look.facts.stopped,
        operation=look.facts.operation.operation if look.facts.operation is not None else "",
        versions={query: version.version for query, version in facts.versions.items()} if facts is not None else {},
        committed={query: status.committed for query, status in queries.items() if status.committed is not None},
        silent_s=round(look.silent_s, 1),
        worst=worst(symptoms),
        symptoms=symptoms,
        unlooked=dict(seen.unlooked),
        seen_at=look.now,
        queries=_queries(seen, memory),
        restarts=max(0, seen.driver.status.generation - 1) if seen.driver.status is not None else 0,
        restarts_lately=len(memory.restarts),
        error=memory.error,
        under_way=facts.operation if facts is not None else None,
        memory=memory,
    )


def remember_told(seen: WatchedJob, memory: JobMemory, now: float) -> JobMemory:
    """Return the memory with facts that a driver reports only once: commit times and the driver's last error."""
    reported = {name: status.signals.last_commit for name, status in _statuses(seen).items()}
    moments = {**memory.committed_at, **{name: moment for name, moment in reported.items() if moment is not None}}
    queries = _names(seen.facts, seen)
    kept = {name: moment for name, moment in moments.items() if name in queries}
    return replace(memory, committed_at=kept, error=_error(seen, memory.error, now))


def _error(seen: WatchedJob, before: ToldError | None, now: float) -> ToldError | None:
    text = _told_error(seen)[:LONGEST_ERROR]
    if text:
        same = before is not None and before.text == text and before.lasts
        return before if same else ToldError(text=text, since=now)
    if before is None or now - before.since > REMEMBERED_S:
        return None
    return replace(before, lasts=False) if before.lasts else before


def _told_error(seen: WatchedJob) -> str:
    """Return the error that the driver reported; without one, the failure of the last deploy."""
    driver = seen.driver
    found = driver.error or "; ".join(driver.query_errors) or driver.waiting
    return found or (seen.facts.last_failure if seen.facts is not None else "")


def _queries(seen: WatchedJob, memory: JobMemory) -> dict[str, QueryRow]:
    terminated = seen.driver.terminated
    statuses = {} if terminated else _statuses(seen)
    return {
        name: _query(statuses.get(name), memory.committed_at.get(name), memory.snapshots.get(name))
        for name in _names(seen.facts, seen)
    }


def _query(status: QueryStatus | None, committed_at: float | None, snapshots: SnapshotFacts | None) -> QueryRow:
    signals = status.signals if status is not None else None
    sources = signals.sources if signals is not None else ()
    return QueryRow(
        lag_s=signals.lag_s if signals is not None else None,
        lag_records=total(source.lag_records for source in sources),
        lag_files=total(source.lag_files for source in sources),
        committed_at=committed_at,
        batch_s=(signals.usual_batch_s or signals.batch_s) if signals is not None and signals.batch >= 0 else None,
        trigger_s=signals.trigger_s if signals is not None else None,
        rows_per_s=signals.input_rows_per_s if signals is not None and signals.batch >= 0 else None,
        snapshots_known=snapshots is not None,
        snapshot_at=snapshots.taken_at if snapshots is not None else None,
        verified_at=snapshots.verified_at if snapshots is not None else None,
    )


def _statuses(seen: WatchedJob) -> dict[str, QueryStatus]:
    return seen.driver.status.queries if seen.driver.status is not None else {}


def _names(facts: JobFacts | None, seen: WatchedJob) -> list[str]:
    """Return the current release's queries; if none is recorded, the queries in the driver's status."""
    return sorted(facts.versions if facts is not None and facts.versions else _statuses(seen))
