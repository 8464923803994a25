"""A job's row in the list: equal from the index and from a live read, and no fact that was reported earlier is lost."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from msgspec.structs import replace

from streamkeeper.model.protocol.driver_messages import DriverExit, DriverState, DriverStatus, QueryStatus
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.signals import QuerySignals, SourceSignals
from streamkeeper.model.records.journal_records import (
    DesiredChanged,
    JobForgotten,
    OperationFinished,
    OperationStarted,
    Outcome,
)
from streamkeeper.model.records.snapshot import DrillResult
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.watch.fleet_index import JobRow
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.operations.fleet.job_rows import LONGEST_ERROR, REMEMBERED_S
from streamkeeper.operations.fleet.watching import WatchPass, look_now, run_pass
from streamkeeper.operations.jobs.job_facts import read_facts
from streamkeeper.registry.driver_control import Control
from streamkeeper.stores.counting import CountingStore
from tests.operations.registered_job import JOB, QUERY, Registered

NOW = 1_800_000_000.0


def tell(job: Registered, *, generation: int = 1, error: str = "", query_error: str = "", **signals: object) -> None:
    """Write the next status of a running driver."""
    told = QuerySignals(sources=(SourceSignals(source="s", lag_s=30.0, lag_records=7),), **signals)  # type: ignore[arg-type]
    query = QueryStatus(query=QUERY, version="v0001", epoch=1, triggers=3, committed=7, error=query_error, signals=told)
    control = Control(job.installation.store, JOB, "op-candidate")
    before = control.read_status()
    control.write_status(
        DriverStatus(
            instance="op-candidate", release="r0001", generation=generation, state=DriverState.SERVING,
            beat=(before.beat if before else 0) + 1, at="", error=error, queries={QUERY: query},
        )
    )  # fmt: skip


def passed(job: Registered, at: float) -> JobRow:
    """Return the row of one pass of the watch, and assert that a live read shows the same."""
    (row,) = run_pass(WatchPass(installation=job.installation, now=lambda: at, acts=False)).index.rows
    (live,) = look_now(job.installation, now=at).rows
    shown = ("queries", "restarts", "restarts_lately", "error", "standing", "release", "under_way", "stopped")
    assert [getattr(live, each) for each in shown] == [getattr(row, each) for each in shown]
    return row


def test_a_row_shows_lag_last_commit_restarts_and_verified_snapshot(tmp_path: Path) -> None:
    """A row shows lag, last commit, restarts and the newest verified snapshot; a failed drill verifies no snapshot."""
    job = Registered(tmp_path)
    job.runner.life = Life.ALIVE
    tell(job, last_commit=NOW - 5)
    job.take()
    job.catalogue.note_drill(1, DrillResult(id="d1", ok=False, message="no"))
    query = passed(job, NOW).queries[QUERY]
    assert (query.lag_s, query.lag_records, query.lag_files, query.committed_at) == (30.0, 7, None, NOW - 5)
    assert (query.snapshots_known, query.snapshot_at is None, query.verified_at) == (True, False, None)
    job.catalogue.note_drill(1, DrillResult(id="d2", ok=True, message="went on"))
    (live,) = look_now(job.installation, now=NOW + 60).rows
    assert live.queries[QUERY].verified_at == live.queries[QUERY].snapshot_at
    tell(job, generation=4)
    row = passed(job, NOW + 700)
    assert (row.restarts, row.restarts_lately) == (3, 3)
    assert row.queries[QUERY].committed_at == NOW - 5, "a driver that has begun again does not know it"


def test_a_dead_driver_has_no_lag(tmp_path: Path) -> None:
    """The row of a dead driver has no lag, because its last value is outdated, but keeps the time of its last
    commit.
    """
    job = Registered(tmp_path)
    tell(job, last_commit=NOW - 5)
    row = passed(job, NOW)
    assert row.standing is JobStatus.FAILED
    assert (row.queries[QUERY].lag_s, row.queries[QUERY].committed_at) == (None, NOW - 5)


def test_an_error_is_remembered_for_a_day(tmp_path: Path) -> None:
    """A row keeps the last error, of the driver or of a query, for a day, with the time it was first seen and whether
    it is still reported.
    """
    job = Registered(tmp_path)
    job.runner.life = Life.ALIVE
    tell(job, query_error="x" * 9000)
    error = passed(job, NOW).error
    assert error is not None
    assert (len(error.text), error.since, error.lasts) == (LONGEST_ERROR, NOW, True)
    assert error.text.startswith(f"query {QUERY}: xxx")
    assert passed(job, NOW + 60).error == error
    tell(job)
    assert passed(job, NOW + 120).error == replace(error, lasts=False)
    tell(job, error="no room")
    told = passed(job, NOW + 180).error
    assert told is not None
    assert (told.text, told.since) == ("no room", NOW + 180)
    tell(job)
    assert passed(job, NOW + 180 + REMEMBERED_S).error == replace(told, lasts=False)
    assert passed(job, NOW + 181 + REMEMBERED_S).error is None


def test_a_rows_error_is_the_exit_message_or_the_failed_deploys_sentence(tmp_path: Path) -> None:
    """A row's error is the driver's exit message if there is one, and the failed deploy's sentence if the driver has
    reported none.
    """
    job = Registered(tmp_path)
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB, release="r0002"), steps=()))
    job.record(OperationFinished(operation="op2", outcome=Outcome.REFUSED, sentence="r0002 did not start"))
    failed = passed(job, NOW).error
    assert failed is not None
    assert failed.text == "r0002 did not start"
    tell(job, error="trouble")
    end = DriverExit(instance="op-candidate", state=DriverState.FAILED, code=5, error="restarts are used up: trouble")
    Control(job.installation.store, JOB, "op-candidate").write_exit(end)
    ended = passed(job, NOW).error
    assert ended is not None
    assert ended.text == "restarts are used up: trouble"


def test_a_stopped_and_a_forgotten_job_are_rows_too(tmp_path: Path) -> None:
    """The row of a stopped job shows who stopped it and why; a forgotten job has a row that is marked as forgotten."""
    job = Registered(tmp_path)
    job.record(DesiredChanged(serve=False, requested_by="ann", reason="moved"))
    row = passed(job, NOW)
    assert (row.standing, row.stopped) == (JobStatus.STOPPED, "by ann: moved")
    job.record(JobForgotten(requested_by="ann", reason="closed"))
    assert passed(job, NOW).forgotten


def test_a_row_shows_batch_time_row_rate_and_who_deployed_the_release(tmp_path: Path) -> None:
    """A row shows the median batch time, the trigger and the row rate of a live driver, none of a dead one, and who
    deployed the current release.
    """
    job = Registered(tmp_path)
    for operation, who, release in (("op-2", "airflow:ada", "r0001"), ("op-3", "the watch", "r0001")):
        request = DeployRequest(job=JOB, release=release, requested_by=who)
        job.record(OperationStarted(operation=operation, request=request, steps=()))
        job.record(OperationFinished(operation=operation, outcome=Outcome.SUCCEEDED, sentence="serves"))
    job.runner.life = Life.ALIVE
    tell(job, batch=7, batch_s=9.0, usual_batch_s=2.0, trigger_s=5.0, input_rows_per_s=40.0)
    row = passed(job, NOW)
    query = row.queries[QUERY]
    assert (query.batch_s, query.trigger_s, query.rows_per_s, row.owner) == (2.0, 5.0, 40.0, "airflow:ada")
    tell(job)
    query = passed(job, NOW + 60).queries[QUERY]
    assert (query.batch_s, query.rows_per_s) == (None, None), "it has run no batch yet"
    job.runner.life = Life.DEAD
    query = passed(job, NOW + 120).queries[QUERY]
    assert (query.batch_s, query.trigger_s, query.rows_per_s) == (None, None, None)


def test_incomplete_cached_facts_of_an_earlier_version_are_read_once_more(tmp_path: Path) -> None:
    """Cached facts without an owner, as an earlier version wrote them, are read once more; complete facts cost one
    request that checks whether the journal has grown.
    """
    job = Registered(tmp_path)
    request = DeployRequest(job=JOB, release="r0001", requested_by="cli:bob")
    job.record(OperationStarted(operation="op-2", request=request, steps=()))
    job.record(OperationFinished(operation="op-2", outcome=Outcome.SUCCEEDED, sentence="serves"))
    facts = read_facts(job.installation, JOB, None)
    assert facts.owner == "cli:bob"
    assert read_facts(job.installation, JOB, replace(facts, owner=None)) == facts
    store = CountingStore(job.installation.store)
    assert read_facts(dataclasses.replace(job.installation, store=store), JOB, facts) is facts
    assert store.requests == 1
