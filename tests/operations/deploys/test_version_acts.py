"""Checkpoint versions that a deploy creates: they are recorded first, become current with the appointment, and can be
created repeatedly without harm.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from streamkeeper.errors import OperationRefused
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.journal_records import (
    Assessed,
    InstanceEnded,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Role,
    StepDone,
)
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.version_acts import VersionActs, free_version
from tests.operations.registered_job import JOB, QUERY, Registered

NEXT = "op2-candidate"


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job whose next deploy is in progress."""
    return Registered(tmp_path)


def under_way(job: Registered, way: Transition, *, over: bool = True) -> VersionActs:
    """Record the assessed operation ``op2``; with ``over`` the old driver is proven dead."""
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
    job.record(InstancePlanned(operation="op2", instance=NEXT, release="r0001", role=Role.CANDIDATE))
    ways = {QUERY: QueryTransition(way=way, before="v0001", version="v0002" if way.switches else "v0001")}
    job.record(
        Assessed(
            operation="op2", verdict=Verdict.SWITCH, reverse=Verdict.SWITCH, sentence="", report="", transitions=ways
        )
    )
    if over:
        job.record(InstanceEnded(operation="op", instance="op-candidate", proof="seen", exit="drained"))
    return VersionActs(job.installation, job.installation.journal(JOB, "op2"), JOB, "op2")


@pytest.mark.parametrize(("way", "parent"), [(Transition.HANDOFF, "v0001"), (Transition.REBUILD, "")])
def test_a_new_version_becomes_current_with_its_appointment(job: Registered, way: Transition, parent: str) -> None:
    """A new version becomes current with the appointment: a handoff has the old version as its parent, a rebuild has
    none. Repeating the calls changes nothing.
    """
    acts = under_way(job, way)
    if way is Transition.REBUILD:
        acts.shadow(NEXT)
        acts.shadow(NEXT)
        state = job.installation.journal(JOB, "test").state()
        assert state.shadow == NEXT
        assert state.current_version(QUERY).version == "v0001"
    acts.appoint(NEXT, {QUERY: "v0002"})
    acts.appoint(NEXT, {QUERY: "v0002"})
    state = job.installation.journal(JOB, "test").state()
    assert (state.appointed, state.current) == (NEXT, {QUERY: "v0002"})
    assert state.version(QUERY, "v0002").parent == parent
    assert job.versions == ["v0001", "v0002"]


def test_an_appointment_is_refused_until_the_old_owner_is_proven_dead(job: Registered) -> None:
    """An appointment is refused until the journal contains proof that the old owner has terminated."""
    acts = under_way(job, Transition.HANDOFF, over=False)
    with pytest.raises(OperationRefused, match="the end of op-candidate is not proven"):
        acts.appoint(NEXT, {QUERY: "v0002"})
    assert job.installation.journal(JOB, "test").state().current_version(QUERY).version == "v0001"


def test_an_operation_that_is_over_creates_nothing(job: Registered) -> None:
    """A process that resumes after its operation was closed creates no version, no shadow and no directory."""
    acts = under_way(job, Transition.REBUILD)
    job.record(OperationFinished(operation="op2", outcome=Outcome.FAILED, sentence=""))
    acts.shadow(NEXT)
    acts.appoint(NEXT, {QUERY: "v0002"})
    job.take()
    acts.restore(QUERY, "v0003", acts.snapshot_named(QUERY, "s0001"), "v0001")
    assert job.versions == ["v0001"]
    assert not job.directory.with_name("v0003").exists()
    assert job.installation.journal(JOB, "test").state().shadow == ""


def test_a_restored_version_continues_the_old_output_after_its_snapshot_batch(job: Registered) -> None:
    """A restored version continues the old output after the snapshot's batch; a repeated restore returns the same
    version, which is not current before its appointment.
    """
    job.take()
    acts = under_way(job, Transition.RESTORE)
    snapshot = acts.snapshot_named(QUERY, "s0001")
    for _ in range(2):
        acts.restore(QUERY, "v0002", snapshot, "v0001")
    state = job.installation.journal(JOB, "test").state()
    assert state.current_version(QUERY).version == "v0001"
    assert state.segments(QUERY, "v0002") == (OutputSegment("v0001", snapshot.batch), OutputSegment("v0002"))
    restored = job.directory.with_name("v0002")
    assert (restored / "metadata").read_bytes() == (job.directory / "metadata").read_bytes()


@pytest.mark.parametrize(
    ("kind", "known", "parent"),
    [("kafka", True, "v0001"), ("kafka", False, ""), ("file", False, "v0001")],
    ids=["topic", "topic of an unknown version", "files"],
)
def test_a_version_restored_into_a_topic_continues_only_a_version_of_its_query(
    tmp_path: Path, kind: str, known: bool, parent: str
) -> None:
    """In a topic, a restored version continues the snapshot's version only if the same output received it or the
    journal records it with the snapshot's query id, because readers drop records by this parent.
    """
    job = Registered(tmp_path, sink=kind)
    acts = under_way(job, Transition.RESTORE)
    job.record(StepDone(operation="op2", step="bundle", result={"release": "r0001"}))
    job.take()
    snapshot = acts.snapshot_named(QUERY, "s0001")
    if known:
        job.record(msgspec.structs.replace(job.epoch("v0001", 2), query_id=snapshot.query_id))
    elsewhere = msgspec.structs.replace(snapshot, release="r0009")
    assert acts.parent_of(QUERY, elsewhere) == parent
    assert acts.parent_of(QUERY, snapshot) == "v0001"


def test_a_late_second_restore_changes_nothing_in_a_committed_directory(job: Registered) -> None:
    """A second, late process that restores the same version changes nothing in a directory in which a driver has
    committed.
    """
    job.take()
    acts = under_way(job, Transition.RESTORE)
    snapshot = acts.snapshot_named(QUERY, "s0001")
    acts.restore(QUERY, "v0002", snapshot, "v0001")
    served = job.directory.with_name("v0002") / "commits" / "99"
    served.write_text("a batch of the driver that serves on it")
    acts.restore(QUERY, "v0002", snapshot, "v0001")
    assert served.exists()


def test_the_directory_name_of_a_killed_restore_is_not_reused(job: Registered) -> None:
    """A new version does not use the name of an unrecorded directory that a killed restore has left."""
    state = job.installation.journal(JOB, "test").state()
    assert free_version(job.installation, state, QUERY) == "v0002"
    job.directory.with_name("v0002").mkdir()
    assert free_version(job.installation, state, QUERY) == "v0003"


def test_a_repeated_fallback_reuses_its_recorded_version(job: Registered) -> None:
    """A fallback that runs a second time reuses the version that it has recorded and creates no further one."""
    job.take()
    acts = under_way(job, Transition.RESUME)
    way = QueryTransition(way=Transition.RESUME, before="v0001", version="v0001", back=Transition.RESTORE)
    for _ in range(2):
        version = acts.version_for_fall_back(QUERY, way)
        acts.restore(QUERY, version, acts.snapshot_named(QUERY, "s0001"), "v0001")
    assert job.versions == ["v0001", "v0002"]
