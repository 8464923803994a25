"""The history of a job, read from its journal alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.model.records.journal_records import (
    DesiredChanged,
    EpochClaimed,
    JobForgotten,
    OperationFinished,
    OperationStarted,
    Outcome,
    ReleaseRegistered,
    StepDone,
)
from streamkeeper.model.requests.diagnosis import Recovery, RecoveryAction
from streamkeeper.model.requests.request import Deployment, DeployRequest, RequestKind, Rollback, StartCurrent
from streamkeeper.operations.jobs import timelines
from streamkeeper.operations.jobs.carriers import Carrier, note_carrier
from streamkeeper.operations.jobs.timelines import Timeline, TimelineRow, read_timeline
from tests.operations.registered_job import JOB, Registered


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    return Registered(tmp_path)


def timeline(job: Registered, before: int = 0) -> Timeline:
    return read_timeline(job.installation, job.installation.journal(JOB, "test").state(), before=before)


def newest(job: Registered) -> TimelineRow:
    return timeline(job).rows[0]


def operate(
    job: Registered, name: str, outcome: Outcome | None = Outcome.REFUSED, kind: RequestKind | None = None
) -> None:
    """Record an operation, which stays open without an outcome."""
    request = DeployRequest(job=JOB).of_kind(kind or Deployment())
    job.record(OperationStarted(operation=name, request=request, steps=()))
    if outcome is not None:
        job.record(OperationFinished(operation=name, outcome=outcome, sentence=f"{name} is over"))


def test_a_row_shows_an_operations_requester_reason_release_and_outcome(job: Registered) -> None:
    """A row of an operation shows its kind, its requester, the reason, the release, the outcome and how long it
    took.
    """
    job.record(
        OperationStarted(
            operation="op2", request=DeployRequest(job=JOB, reason="faster", requested_by="cli:ada"), steps=()
        )
    )
    job.record(StepDone(operation="op2", step="bundle", result={"release": "r0002"}))
    row = newest(job)
    assert (row.kind, row.by, row.reason, row.release, row.outcome) == ("deploy", "cli:ada", "faster", "r0002", "open")
    assert (row.took_s, row.gap_s) == (None, None)
    job.record(OperationFinished(operation="op2", outcome=Outcome.FAILED, sentence="it broke"))
    row = newest(job)
    assert (row.outcome, row.sentence) == ("failed", "it broke")
    assert row.took_s is not None
    assert row.took_s >= 0


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Deployment(), "deploy"),
        (Rollback(), "rollback"),
        (StartCurrent(), "start"),
        (Recovery(action=RecoveryAction.RESTORE, cause="checkpoint-lost"), "restore"),
    ],
)
def test_a_row_shows_the_kind_of_its_operation(job: Registered, kind: RequestKind, told: str) -> None:
    """A row shows an operation's kind as deploy, rollback, start or restore."""
    operate(job, "op2", kind=kind)
    assert newest(job).kind == told


def test_stops_pushes_and_forgetting_have_rows_of_their_own(job: Registered) -> None:
    """Stops, pushes and the forgetting of a job have rows of their own; the recorded wish of a start is part of the row
    of its operation.
    """
    job.record(DesiredChanged(serve=False, requested_by="cli:ada", reason="it rains", operation="stop-1"))
    operate(job, "op2", kind=StartCurrent())
    job.record(DesiredChanged(serve=True, requested_by="cli:ada", reason="", operation="op2"))
    pushed = job.installation.journal(JOB, "test").state().releases["r0001"]
    job.record(ReleaseRegistered(release=pushed.__class__(job=JOB, number=5, content=pushed.content)))
    job.record(JobForgotten(requested_by="cli:bob", reason="the shop has closed"))
    found = [(row.kind, row.by, row.operation) for row in timeline(job).rows]
    assert found == [
        ("forget", "cli:bob", ""),
        ("push", "test", ""),
        ("start", "", "op2"),
        ("stop", "cli:ada", ""),
        ("deploy", "", "op"),
        ("push", "test", ""),
    ]
    assert timeline(job).rows[3].sentence == "stop requested by cli:ada: it rains"


def test_a_row_links_the_dag_run_that_carried_its_operation(job: Registered) -> None:
    """A row links the DAG run that carried its operation; an operation from the command line has no link, and neither
    has one with an unreadable carrier.
    """
    for name in ("op2", "op3", "op4"):
        operate(job, name)
    note_carrier(job.installation.store, JOB, "op2", Carrier(dag="streaming_deploy", run="manual"))
    note_carrier(job.installation.store, JOB, "op3", Carrier(pid=7))
    job.installation.store.replace(f"carriers/{JOB}/op4.json", b"{")
    runs = {row.operation: (row.dag, row.run) for row in timeline(job).rows if row.operation}
    assert runs == {"op": ("", ""), "op2": ("streaming_deploy", "manual"), "op3": ("", ""), "op4": ("", "")}


def test_a_page_reads_a_fixed_number_of_entries_despite_many_restarts(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page reads at most a fixed number of entries and refers to the older ones, down to the first, however many
    restarts lie between two operations.
    """
    monkeypatch.setattr(timelines, "MOST_ENTRIES", 10)
    operate(job, "op2")
    for number in range(2, 40):
        job.record(
            EpochClaimed(
                query="totals", output="t", epoch=number, instance="op-candidate", generation=number, version="v0001"
            )
        )
    operate(job, "op3")
    seen, before, pages = [], 0, 0
    while pages == 0 or before:
        found = timeline(job, before)
        seen += [row.operation for row in found.rows if row.operation]
        assert before == 0 or found.older < before
        before, pages = found.older, pages + 1
    assert seen == ["op3", "op2", "op"]
    assert pages > 3
