"""The figures in a job's row of the fleet. Each figure comes from the query that has the worst value."""

from __future__ import annotations

from collections.abc import Iterable

from streamkeeper.model.watch.fleet_index import QueryRow
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.model.watch.quantities import least, most, tell_age


def tell_status(standing: JobStatus) -> str:
    """Return a job's status in one word for users; JSON and URLs contain the stored value instead."""
    return "running" if standing is JobStatus.SERVING else standing.value


def tell_lag(queries: Iterable[QueryRow]) -> str:
    """Return the largest lag of any query: in seconds if any query's lag is known in seconds, otherwise in unread rows
    or files.
    """
    found = list(queries)
    seconds = most(query.lag_s for query in found)
    records, files = most(query.lag_records for query in found), most(query.lag_files for query in found)
    counted = f"{records:,} rows" if records else f"{files:,} files" if files else ""
    if seconds is not None:
        return tell_age(seconds)
    return counted or ("0" if records is not None or files is not None else "-")


def tell_commit(queries: Iterable[QueryRow], now: float) -> str:
    """Compare the last commits of the queries, and return the age of the oldest of them at the moment ``now``.

    Queries whose last commit is unknown are ignored. Returns ``-`` if no last commit is known.
    """
    return _age(least(query.committed_at for query in queries), now)


def tell_verified(queries: Iterable[QueryRow], now: float) -> str:
    """Compare the queries' newest verified snapshots, and return the age of the oldest of them at the moment ``now``.

    Returns ``none`` if a query has no verified snapshot, ``-`` if the snapshots of a query were not examined or there
    is no query.
    """
    found = list(queries)
    if not found or not all(query.snapshots_known for query in found):
        return "-"
    if any(query.verified_at is None for query in found):
        return "none"
    return _age(least(query.verified_at for query in found), now)


def slowest(queries: Iterable[QueryRow]) -> QueryRow | None:
    """Return the query whose batches take the largest share of their trigger interval.

    If no query has a trigger interval, return the query with the longest batches. Return None if no batch duration
    is known.
    """
    ran = [query for query in queries if query.batch_s is not None]
    return max(ran, key=lambda query: (share_of_trigger(query) or 0.0, query.batch_s or 0.0), default=None)


def share_of_trigger(query: QueryRow) -> float | None:
    """Return a batch's duration as a share of the trigger interval; None if unknown. Above 1 the query falls behind."""
    return query.batch_s / query.trigger_s if query.batch_s is not None and query.trigger_s else None


def tell_batch(query: QueryRow | None) -> str:
    """Return a batch's duration and the trigger interval, such as ``1.2 s of 5 s``, or ``1.2 s`` without an interval.

    Returns ``-`` if ``query`` is None or its batch duration is unknown.
    """
    if query is None or query.batch_s is None:
        return "-"
    took = f"{query.batch_s:.1f} s" if query.batch_s < 10 else tell_age(query.batch_s)
    return f"{took} of {tell_age(query.trigger_s)}" if query.trigger_s else took


def _age(moment: float | None, now: float) -> str:
    return tell_age(None if moment is None else now - moment)
