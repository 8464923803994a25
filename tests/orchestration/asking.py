"""An operation that waits for a person: an opaque change of the installed job, its state kept in a snapshot."""

from __future__ import annotations

import msgspec

from streamkeeper.model.coding import to_json
from streamkeeper.model.finding import Assessment, Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.job_state import OperationState
from streamkeeper.model.journal import (
    Assessed,
    DeployRequest,
    OperationStarted,
    Record,
    ReleaseDescribed,
    ReleaseRegistered,
    StepDone,
)
from streamkeeper.model.ways import QueryWay, Way
from streamkeeper.registry.objects import put_object
from tests.operations.registered_job import JOB, QUERY, Registered

BUNDLE = "c" * 64


def ask(job: Registered, operation: str, *, backup: bool = True) -> None:
    """Record all that comes before the question; without ``backup`` nobody is to be asked yet."""
    state = job.site.journal(JOB, "test").state()
    release = state.releases["r0001"]
    other = msgspec.structs.replace(release, number=2, content=msgspec.structs.replace(release.content, bundle=BUNDLE))
    finding = Finding(
        rule="code-in-state-changed", severity=Severity.OPAQUE, where="function counted", evidence="a -> b"
    )
    judged = QueryAssessment(verdict=Verdict.BACKUP, findings=(finding,))
    report = to_json(Assessment(verdict=Verdict.BACKUP, queries={QUERY: judged}))
    way = QueryWay(way=Way.RESUME, before="v0001", version="v0001", opaque=True, back=Way.RESTORE)
    records: list[Record] = [
        ReleaseRegistered(release=other),
        ReleaseDescribed(release="r0002", manifests=state.described["r0001"]),
        OperationStarted(operation=operation, request=DeployRequest(job=JOB, reason="faster", approve_s=60), steps=()),
        StepDone(operation=operation, step="bundle", result={"release": "r0002"}),
        StepDone(operation=operation, step="standby"),
        Assessed(
            operation=operation,
            verdict=Verdict.BACKUP,
            reverse=Verdict.BACKUP,
            sentence="BACKUP: nothing proves what it means to totals",
            report=put_object(job.site.store, JOB, "reports", report, ".json"),
            ways={QUERY: way},
        ),
        StepDone(operation=operation, step="assess"),
    ]
    if backup:
        records.append(StepDone(operation=operation, step="backup", result={QUERY: job.take()}))
    for record in records:
        job.site.journal(JOB, "test").append(lambda _, record=record: record)


def asked(job: Registered, operation: str) -> OperationState:
    """What the journal says of it."""
    return job.site.journal(JOB, "test").state().operations[operation]
