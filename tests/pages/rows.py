"""Rows of the fleet's index as a pass of the watch writes them: a healthy job and its variations."""

from __future__ import annotations

from streamkeeper.model.watch.fleet_index import JobMemory, JobRow, QueryRow
from streamkeeper.model.watch.health import Symptom, Urgency
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.model.watch.watched_facts import JobFacts, OperationFacts

AT = 1_800_000_000.0
CLEAR = QueryRow(
    lag_s=12.0, committed_at=AT - 240, batch_s=1.25, trigger_s=5.0, rows_per_s=40.0, snapshots_known=True,
    verified_at=AT - 7200,
)  # fmt: skip


def row(job: str = "orders", standing: JobStatus = JobStatus.SERVING, **given: object) -> JobRow:
    """Return the row of a healthy job, changed by the given fields."""
    return JobRow(
        **{"job": job, "standing": standing, "release": "r0003", "queries": {"q": CLEAR}, **given}  # type: ignore[arg-type]
    )


def remembered(**given: object) -> JobMemory:
    """Return what the watch's memory contains of a job's journal."""
    facts = {
        "number": 9, "wanted": True, "stopped": "", "serving_release": "r0003", "serving_instance": "i",
        "desired_release": "r0003", "last_failure": "", "owner": "airflow:ada", **given,
    }  # fmt: skip
    return JobMemory(facts=JobFacts(**facts))  # type: ignore[arg-type]


def wrong(severity: Urgency = Urgency.PAGE, cause: str = "no trigger") -> dict[str, object]:
    """Return the fields of a row that has one symptom."""
    symptom = Symptom(
        rule="stalled", severity=severity, job="orders", query="q", cause=cause, action="", heading="A job stands still"
    )
    return {"worst": severity, "symptoms": (symptom,)}


FLEET = (
    row("alpha", memory=remembered(owner="airflow:ada")),
    row("beta", **wrong(Urgency.TICKET, "lag grows"), memory=remembered(owner="cli:bob")),
    row("gamma", standing=JobStatus.FAILED, **wrong(), operation="op-1",
        under_way=OperationFacts(operation="op-1", kind="deploy", step="approve", began_at=AT, waits_for_person=True)),
    row("delta", operation="op-2",
        under_way=OperationFacts(operation="op-2", kind="rollback", step="drain", began_at=AT)),
    row("gone", memory=remembered(forgotten=True)),
)  # fmt: skip
