"""What a rollback to the previous release would write a second time, computed while the new release runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.journal_records import (
    Assessed,
    InstanceAppointed,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    ReleaseDescribed,
    ReleasePromoted,
    ReleaseRegistered,
    Role,
    StepDone,
)
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.blast_radius import told_going_back
from streamkeeper.operations.jobs.operation_record import read_operation
from tests.operations.registered_job import JOB, QUERY, Registered

FORWARD = QueryTransition(way=Transition.RESUME, before="v0001", version="v0001")


def deployed(
    job: Registered, way: QueryTransition, *, snapshot: str = "", outcome: Outcome = Outcome.SUCCEEDED
) -> None:
    """Record that a second release took over after batch 7; ``snapshot`` is the one taken of that batch."""
    state = job.installation.journal(JOB, "test").state()
    release = state.releases["r0001"]
    content = replace(release.content, bundle="c" * 64)
    records: tuple[Record, ...] = (
        ReleaseRegistered(release=replace(release, number=2, content=content)),
        ReleaseDescribed(release="r0002", manifests=state.described["r0001"]),
        OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()),
        StepDone(operation="op2", step="bundle", result={"release": "r0002"}),
        Assessed(
            operation="op2",
            verdict=Verdict.RESUME,
            reverse=Verdict.BACKUP,
            sentence="RESUME",
            report="",
            transitions={QUERY: way},
        ),
        InstancePlanned(operation="op2", instance="op2-candidate", release="r0002", role=Role.CANDIDATE),
        StepDone(operation="op2", step="prove-dead", result={QUERY: "7"}),
        InstanceAppointed(operation="op2", instance="op2-candidate", versions={QUERY: way.version}),
        StepDone(operation="op2", step="boundary", result={QUERY: snapshot or "failed: no room"}),
        ReleasePromoted(operation="op2", release="r0002", instance="op2-candidate"),
        OperationFinished(operation="op2", outcome=outcome, sentence="r0002 serves"),
    )
    for record in records:
        job.record(record)


def told(job: Registered) -> dict[str, str]:
    return told_going_back(job.installation, read_operation(job.installation, JOB, "op2"))


def test_a_rollback_by_a_snapshot_costs_the_batches_since_the_cutover(tmp_path: Path) -> None:
    """A rollback by a snapshot costs the batches since the cutover and reports an output that is ahead of the commits;
    computing it starts no driver.
    """
    job = Registered(tmp_path)
    deployed(job, replace(FORWARD, back=Transition.RESTORE), snapshot=job.take())
    job.write_table(7)
    assert "no rows are written again" in told(job)[QUERY]
    job.commit(8)
    job.commit(9)
    job.write_table(10)
    assert "2 batches" in told(job)[QUERY]
    assert "contains batch 10, but only batch 9 is committed" in told(job)[QUERY]
    assert "each row replaces the one with its key" in told(job)[QUERY]


@pytest.mark.parametrize("parent", ["v0001", ""], ids=["continues", "begins anew"])
def test_a_rollback_into_a_topic_promises_rows_once_only_to_a_version_of_the_same_lineage(
    tmp_path: Path, parent: str
) -> None:
    """A rollback says that the topic receives batches a second time. It promises that readers see them once only if the
    version that it leaves continues the version to which it returns.
    """
    job = Registered(tmp_path, sink="kafka")
    job.record(replace(job.version("v0002"), parent=parent, parent_batch=7 if parent else None))
    deployed(job, QueryTransition(way=Transition.HANDOFF, before="v0001", version="v0002", back=Transition.RETURN))
    assert "keeps no record of its batches), and the topic receives them a second time" in told(job)[QUERY]
    assert ("newest_attempts sees them once" in told(job)[QUERY]) is bool(parent)


def test_a_rollback_into_a_topic_by_a_snapshot_promises_rows_once(tmp_path: Path) -> None:
    """A rollback by a snapshot of the version that it leaves promises that readers of a topic see the rows once."""
    job = Registered(tmp_path, sink="kafka")
    deployed(job, replace(FORWARD, back=Transition.RESTORE), snapshot=job.take())
    job.commit(8)
    assert "newest_attempts sees them once" in told(job)[QUERY]


def test_missing_input_files_of_a_rollback_are_named(tmp_path: Path) -> None:
    """The cost of a rollback names the input files that the replay would lack because they are missing, and those that
    cannot be checked.
    """
    job = Registered(tmp_path)
    deployed(job, replace(FORWARD, back=Transition.RESTORE), snapshot=job.take())
    job.commit(8)
    assert "(1 file) to be read and written again; 1 of 1 of these files are missing, such as /in/" in told(job)[QUERY]
    log = job.directory / "sources" / "0" / "8"
    log.write_text(log.read_text().replace("file:///in", "gs://bucket/in"))
    assert "1 of 1 of these files are not checked, such as gs://bucket/in/f8.json" in told(job)[QUERY]


@pytest.mark.parametrize(
    ("way", "sentence"),
    [
        (replace(FORWARD, back=Transition.RESUME), "r0001 resumes from the last commit of the new release"),
        (
            replace(FORWARD, no_way_back="its output would get batches twice"),
            "rollback is NOT possible (its output would get",
        ),
        (replace(FORWARD, back=Transition.RESTORE), "there is no snapshot of its last batch before the cutover"),
    ],
    ids=["forward", "none", "no snapshot"],
)
def test_free_and_impossible_rollbacks_are_reported(tmp_path: Path, way: QueryTransition, sentence: str) -> None:
    """The cost follows the assessed way back: a resume replays nothing, an impossible rollback is reported with its
    reason, and so is a missing snapshot.
    """
    job = Registered(tmp_path)
    deployed(job, way)
    assert sentence in told(job)[QUERY]


def test_only_the_running_release_has_a_rollback_cost(tmp_path: Path) -> None:
    """A rollback cost exists only for the release that runs: a release that fell back, or that a later one has
    replaced, has none.
    """
    job = Registered(tmp_path)
    deployed(job, replace(FORWARD, back=Transition.RESUME))
    assert told(job)
    job.record(ReleasePromoted(operation="op3", release="r0001", instance="op-candidate"))
    assert told(job) == {}
    fell = Registered(tmp_path / "fell")
    deployed(fell, replace(FORWARD, back=Transition.RESUME), outcome=Outcome.FELL_BACK)
    assert told(fell) == {}
    assert told_going_back(fell.installation, read_operation(fell.installation, JOB, "op")) == {}
