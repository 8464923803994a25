"""Tests to which kept versions a rollback returns, with real stores and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.finding import Assessment, Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.manifests.manifest import Manifest, SinkDescription
from streamkeeper.model.records.journal_records import (
    InstanceAppointed,
    InstancePlanned,
    ReleaseDescribed,
    ReleasePromoted,
    ReleaseRegistered,
    Role,
)
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest, Rollback
from streamkeeper.operations.deploys.assessing import find_transitions
from streamkeeper.operations.deploys.kept_versions import describe_other_writer
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.registry.objects import put_object
from tests.operations.registered_job import JOB, QUERY, Registered


def resumed_by_another_release(job: Registered, sink: SinkDescription) -> Manifest:
    """Let a second release resume v0001 in this output, and then continue in v0002. Return the first one's manifest."""
    state = job.installation.journal(JOB, "test").state()
    first = stored_manifests(job.installation, state, "r0001")[QUERY]
    digest = put_object(job.installation.store, JOB, "manifests", to_json(replace(first, sink=sink)), ".json")
    content = replace(state.releases["r0001"].content, bundle="c" * 64)
    for record in (
        InstanceAppointed(operation="op", instance="op-candidate", versions={QUERY: "v0001"}),
        ReleasePromoted(operation="op", release="r0001", instance="op-candidate"),
        ReleaseRegistered(release=replace(state.releases["r0001"], number=2, content=content)),
        ReleaseDescribed(release="r0002", manifests={QUERY: digest}),
        InstancePlanned(operation="op2", instance="op2-candidate", release="r0002", role=Role.CANDIDATE),
        InstanceAppointed(operation="op2", instance="op2-candidate", versions={QUERY: "v0001"}),
        replace(job.epoch("v0001", 2), instance="op2-candidate"),
        ReleasePromoted(operation="op2", release="r0002", instance="op2-candidate"),
        job.version("v0002"),
        InstanceAppointed(operation="op2", instance="op2-candidate", versions={QUERY: "v0002"}),
    ):
        job.record(record)
    return first


def roll_back(job: Registered) -> tuple[QueryTransition | None, str]:
    """Return the transition to the first release, which cannot resume, and the refusal."""
    state = job.installation.journal(JOB, "test").state()
    deployed, candidate = (stored_manifests(job.installation, state, release) for release in ("r0002", "r0001"))
    changed = Finding(rule="grouping-keys-changed", severity=Severity.BREAKING, where="q", evidence="a -> b")
    judged = QueryAssessment(verdict=Verdict.SWITCH, findings=(changed,))
    assessment = Assessment(verdict=Verdict.SWITCH, queries={QUERY: judged})
    request = DeployRequest(job=JOB, release="r0001", accept_risk=True, accept_loss=True).of_kind(Rollback())
    ways, refusal = find_transitions(
        job.installation, state, request, "r0001", deployed, candidate, assessment, assessment
    )
    return ways.get(QUERY), refusal


@pytest.mark.parametrize(("other", "way"), [(True, Transition.RESTORE), (False, Transition.RETURN)])
def test_a_rollback_skips_no_rows_that_a_later_release_wrote_to_another_output(
    tmp_path: Path, other: bool, way: Transition
) -> None:
    """A rollback does not return to a version that a later release has continued in another topic, but restores the
    snapshot of its own release's last batch. Negative control: it returns to the version if the topic is the same.
    """
    job = Registered(tmp_path, sink="kafka")
    if other:
        job.take()
    sink = SinkDescription(kind="kafka", output="others" if other else "the kafka", options={})
    resumed_by_another_release(job, sink)
    found, refusal = roll_back(job)
    assert found is not None, refusal
    assert found.way is way


def test_a_rollback_without_a_snapshot_names_the_release_that_wrote_elsewhere(tmp_path: Path) -> None:
    """Without a snapshot, the rollback is refused with the release that continued the version in another output."""
    job = Registered(tmp_path, sink="kafka")
    resumed_by_another_release(job, SinkDescription(kind="kafka", output="others", options={}))
    found, refusal = roll_back(job)
    assert found is None
    assert "r0002 resumed v0001 and wrote to others, so the kafka lacks the rows that r0002 wrote" in refusal


@pytest.mark.parametrize(
    ("before", "after", "elsewhere"),
    [
        ("table", SinkDescription(kind="kafka", output="totals", options={}), True),
        ("file", SinkDescription(kind="kafka", output="totals", options={}), True),
        ("kafka", SinkDescription(kind="foreach", output="write", options={}), True),
        ("foreach", SinkDescription(kind="foreach", output="renamed", options={}), False),
    ],
)
def test_any_kind_of_output_lacks_what_was_written_to_another_kind(
    tmp_path: Path, before: str, after: SinkDescription, elsewhere: bool
) -> None:
    """A table, files and a topic lack the rows that a later release wrote to another kind of output; a renamed function
    counts as the same output.
    """
    job = Registered(tmp_path, sink=before)
    first = resumed_by_another_release(job, after)
    state = job.installation.journal(JOB, "test").state()
    assert bool(describe_other_writer(job.installation, state, QUERY, "v0001", first.sink)) is elsewhere


@pytest.mark.parametrize("servers", ["two:9092", "one:9092"])
def test_a_topic_at_other_servers_may_lack_what_was_written_there(tmp_path: Path, servers: str) -> None:
    """A topic of the same name at other servers counts as another output, because the servers may be those of another
    cluster. Negative control: the same servers.
    """
    job = Registered(tmp_path, sink="kafka")
    after = SinkDescription(kind="kafka", output="the kafka", options={"servers": servers})
    resumed_by_another_release(job, after)
    state = job.installation.journal(JOB, "test").state()
    before = replace(after, options={"servers": "one:9092"})
    found = describe_other_writer(job.installation, state, QUERY, "v0001", before)
    assert found == (
        "r0002 resumed v0001 and wrote to the kafka at two:9092, so the kafka lacks the rows that r0002 wrote"
        if servers == "two:9092"
        else ""
    )
