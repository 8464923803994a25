"""An operation that waits for a person: an opaque change of the installed job, with its state in a snapshot."""

from __future__ import annotations

import msgspec

from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.finding import Assessment, Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.journal_records import (
    Assessed,
    OperationStarted,
    Record,
    ReleaseDescribed,
    ReleaseRegistered,
    StepDone,
)
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.registry.objects import put_object
from tests.operations.registered_job import JOB, QUERY, Registered

BUNDLE = "c" * 64


DIFFERING = OutputComparison(
    old_rows=4,
    new_rows=4,
    differing=4,
    columns={"amount": 4},
    sample=(("customer='a|b'", "amount", "1", "2"),),
    old_batch=7,
    new_batch=3,
)


def ask(
    job: Registered,
    operation: str,
    *,
    backup: bool = True,
    accept_risk: bool = False,
    requested_by: str = "",
    approvers: tuple[str, ...] = (),
) -> None:
    """Record everything that precedes the question about the state; without ``backup`` the question is not yet due.

    ``approvers`` are those of the candidate.
    """
    way = QueryTransition(way=Transition.RESUME, before="v0001", version="v0001", opaque=True, back=Transition.RESTORE)
    _assess(
        job,
        operation,
        Verdict.BACKUP,
        way,
        DeployRequest(job=JOB, reason="faster", approve_s=60, accept_risk=accept_risk, requested_by=requested_by),
        approvers,
    )
    if backup:
        job.record(StepDone(operation=operation, step="backup", result={QUERY: job.take()}))


def ask_about_output(
    job: Registered,
    operation: str,
    found: OutputComparison = DIFFERING,
    *,
    compared: bool = True,
    expect_different: tuple[str, ...] = (),
) -> None:
    """Record everything that precedes the question about a rebuilt output; without ``compared`` the question is not yet
    due.
    """
    way = QueryTransition(way=Transition.REBUILD, before="v0001", version="v0002", back=Transition.RETURN)
    request = DeployRequest(job=JOB, reason="right sums", approve_s=60, expect_different=expect_different)
    _assess(job, operation, Verdict.SWITCH, way, request)
    for step in ("shadow", "catch-up"):
        job.record(StepDone(operation=operation, step=step))
    if compared:
        result = {QUERY: found.sentence}
        job.record(StepDone(operation=operation, step="compare", result=result, compared={QUERY: found}))


def asked(job: Registered, operation: str) -> OperationState:
    """Return the operation as the journal records it."""
    return job.installation.journal(JOB, "test").state().operations[operation]


def _assess(
    job: Registered,
    operation: str,
    verdict: Verdict,
    way: QueryTransition,
    request: DeployRequest,
    approvers: tuple[str, ...] = (),
) -> None:
    state = job.installation.journal(JOB, "test").state()
    release = state.releases["r0001"]
    content = msgspec.structs.replace(release.content, bundle=BUNDLE, approvers=approvers)
    other = msgspec.structs.replace(release, number=2, content=content)
    finding = Finding(
        rule="code-in-state-changed", severity=Severity.OPAQUE, where="function counted", evidence="a -> b"
    )
    report = to_json(
        Assessment(verdict=verdict, queries={QUERY: QueryAssessment(verdict=verdict, findings=(finding,))})
    )
    records: list[Record] = [
        ReleaseRegistered(release=other),
        ReleaseDescribed(release="r0002", manifests=state.described["r0001"]),
        OperationStarted(operation=operation, request=request, steps=()),
        StepDone(operation=operation, step="bundle", result={"release": "r0002"}),
        StepDone(operation=operation, step="standby"),
        Assessed(
            operation=operation,
            verdict=verdict,
            reverse=verdict,
            sentence=f"{verdict.name}: the effect on totals is not proven",
            report=put_object(job.installation.store, JOB, "reports", report, ".json"),
            transitions={QUERY: way},
        ),
        StepDone(operation=operation, step="assess"),
    ]
    for record in records:
        job.record(record)
