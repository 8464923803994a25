"""The fleet as metrics: the watch's index, and the status of each driver in that index.

The fleet is read at most once in half a minute, however often the metrics are scraped. Without a watch, every job is
read, as the command ``jobs`` does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from streamkeeper.errors import StoreUnavailable, StreamkeeperError
from streamkeeper.model.protocol.driver_messages import DriverStatus
from streamkeeper.model.watch.fleet_index import FleetIndex, JobRow, SnapshotFacts
from streamkeeper.model.watch.health import BackupLook
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import JobObservation, recorded_jobs
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.fleet import read_index
from streamkeeper.system import clock
from streamkeeper.system.metrics import Fleet, JobSample

REFRESH_S = 30.0
FRESH_S = 300.0
"""Age in seconds beyond which an index is used only for the time of the last pass, and the jobs are read directly."""
_READERS = 8
_SERVES = frozenset({JobStatus.SERVING, JobStatus.DRAINING})
_NOT_KNOWN = frozenset({JobStatus.UNKNOWN, JobStatus.NOT_DEPLOYED})


def look_at_fleet(installation: Installation, now: float) -> Fleet:
    """Return every job at ``now``, seconds since 1970; for a job that cannot be read, only its name.

    A store that does not answer is reported in the result, not raised.
    """
    try:
        index = read_index(installation.store, installation.id)
        watch_pass = _last_pass(index, now) if index is not None else None
        if index is None or now - index.started - index.seconds > FRESH_S:
            jobs = tuple(_look(installation, job) for job in recorded_jobs(installation))
            return Fleet(jobs=jobs, watch_pass=watch_pass, store_up=True)
        return Fleet(
            jobs=_of_index(installation, index, now),
            symptoms=tuple(symptom for row in index.rows for symptom in row.symptoms),
            watch_pass=watch_pass,
            store_up=True,
        )
    except StoreUnavailable:
        return Fleet(store_up=False)


def _last_pass(index: FleetIndex, now: float) -> float:
    """Return the time of the last pass that could send notices, in seconds since 1970.

    This is the end of the pass that wrote the index. If Airflow's watch is active but a different watch wrote the
    index, it is the start of the last pass of Airflow's watch.
    """
    return index.airflow_pass_at if index.is_behind_airflow(now) else index.started + index.seconds


class RecentFleet:
    """A fleet that is reread once the copy is older than ``refresh_s`` seconds; threads may share it."""

    def __init__(self, look: Callable[[], Fleet], *, refresh_s: float = REFRESH_S) -> None:
        self._look = look
        self._refresh_s = refresh_s
        self._lock = threading.Lock()
        self._seen: tuple[float, Fleet] | None = None

    def __call__(self) -> Fleet:
        """Return the fleet as read at most ``refresh_s`` seconds ago."""
        with self._lock:
            if self._seen is None or clock.monotonic() - self._seen[0] >= self._refresh_s:
                self._seen = clock.monotonic(), self._look()
            return self._seen[1]


def _of_index(installation: Installation, index: FleetIndex, now: float) -> tuple[JobSample, ...]:
    with ThreadPoolExecutor(_READERS) as readers:
        rows = [row for row in index.rows if not row.forgotten]
        statuses = readers.map(lambda row: _status(installation, row), rows)
        return tuple(_of_row(row, status, now) for row, status in zip(rows, statuses, strict=True))


def _of_row(row: JobRow, status: DriverStatus | None, now: float) -> JobSample:
    return JobSample(
        job=row.job,
        release=row.release,
        serving=_serves(row.standing),
        status=status,
        backups={query: _ages(facts, now) for query, facts in row.memory.snapshots.items()},
    )


def _ages(facts: SnapshotFacts, now: float) -> BackupLook:
    newest, verified = (
        None if moment is None else max(0.0, now - moment) for moment in (facts.taken_at, facts.verified_at)
    )
    return BackupLook(age_s=newest, verified_age_s=verified)


def _status(installation: Installation, row: JobRow) -> DriverStatus | None:
    if not row.instance:
        return None
    try:
        return Control(installation.store, row.job, row.instance).read_status()
    except StoreUnavailable:
        raise
    except StreamkeeperError:
        return None


def _look(installation: Installation, job: str) -> JobSample:
    """Return the sample of one job, read directly because there is no index of a watch. The job's snapshots are not
    read.
    """
    try:
        seen = JobObservation(installation, job)
        status = seen.observed.status
        return JobSample(job=job, release=seen.state.serving_release, serving=_serves(seen.standing), status=status)
    except StoreUnavailable:
        raise
    except StreamkeeperError:
        return JobSample(job=job)


def _serves(standing: JobStatus) -> bool | None:
    return None if standing in _NOT_KNOWN else standing in _SERVES
