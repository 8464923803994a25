"""A deploy's assessment relies on the evidence that its driver has stored, and assumes nothing that the evidence
lacks.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.compatibility import observations
from streamkeeper.lifecycle.steps import path
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifests.evidence import Evidence, Look, QueryEvidence
from streamkeeper.model.manifests.finding import Assessment, Verdict
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import (
    Assessed,
    InstancePlanned,
    ReleaseDescribed,
    ReleaseRegistered,
    Role,
)
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import StateKept
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest, Strategy
from streamkeeper.operations.deploys.approval import back_up_state
from streamkeeper.operations.deploys.assessing import assess_candidate, told_cost
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.objects import put_object, read_object
from tests.operations.registered_job import JOB, QUERY, Registered


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A running job with an open deploy."""
    job = Registered(tmp_path)
    Deploy.open(job.installation, "op2", DeployRequest(job=JOB, release="r0001"))
    return job


def assess(job: Registered) -> Assessed:
    """Return the assessment of the open deploy."""
    state = job.installation.journal(JOB, "test").state()
    return assess_candidate(job.installation, state, state.operations["op2"], "r0001")


def rules(job: Registered, found: Assessed) -> set[str]:
    """Return the rules of the findings in the stored report."""
    report = read_object(job.installation.store, JOB, "reports", found.report, ".json")
    return {each.rule for each in from_json(report, Assessment, where="report").queries[QUERY].findings}


def test_the_evidence_that_was_judged_is_stored(job: Registered) -> None:
    """The assessment stores the evidence that its verdict is based on, so that it can be read later."""
    job.gather("op2")
    found = assess(job)
    assert found.verdict is Verdict.RESUME
    stored = read_object(job.installation.store, JOB, "evidence", found.evidence, ".json")
    assert from_json(stored, Evidence, where="evidence").queries[QUERY].checkpoint == str(job.directory)


def test_without_checkpoint_evidence_the_verdict_is_backup(job: Registered) -> None:
    """Equal manifests without evidence about the checkpoint give the verdict BACKUP and the finding ``not-looked``."""
    found = assess(job)
    assert (found.verdict, rules(job, found)) == (Verdict.BACKUP, {"not-looked"})


def test_evidence_gathered_against_a_different_release_is_ignored(job: Registered) -> None:
    """Evidence that was gathered against a different release is ignored: the verdict is BACKUP with the finding
    ``not-looked``.
    """
    job.gather("op2", against="r0007")
    found = assess(job)
    assert (found.verdict, rules(job, found)) == (Verdict.BACKUP, {"not-looked"})


def test_a_sink_that_is_ahead_refuses_a_deploy_before_anything_is_drained(job: Registered) -> None:
    """A sink that contains later batches than the checkpoint refuses the deploy at the assessment, because the
    candidate would silently skip those batches.
    """
    job.gather("op2", observations.sink_ahead("totals", 9, 7), look=Look.SINK)
    found = assess(job)
    assert found.verdict is Verdict.REFUSE
    assert found.refusal.startswith("query totals: sink-ahead-of-checkpoint")


def test_a_lost_output_refuses_a_deploy_and_an_accepted_loss_does_not(tmp_path: Path) -> None:
    """A lost output refuses the deploy. An accepted loss resumes, and appears in the report, in the sentence and as the
    batch that the driver receives.
    """
    lost = observations.output_lost("totals", "the database file is missing, and batch 7 of v0001 was committed")
    for accepts in (False, True):
        job = Registered(tmp_path / str(accepts))
        Deploy.open(
            job.installation,
            "op2",
            DeployRequest(job=JOB, release="r0001", accept_output_loss=accepts, requested_by="ada"),
        )
        job.gather("op2", lost, look=Look.SINK, batch=7)
        found = assess(job)
        if not accepts:
            assert (found.verdict, found.transitions) == (Verdict.REFUSE, {})
            assert "output-lost (totals: the database file is missing" in found.refusal
            continue
        assert (found.verdict, found.refusal, rules(job, found)) == (Verdict.RESUME, "", {"output-lost"})
        assert found.transitions[QUERY].output_lacks == 7
        assert found.sentence.endswith("the output of query totals continues after batch 7 without its missing rows")


def test_a_renamed_query_with_a_foreach_sink_needs_an_approval(tmp_path: Path) -> None:
    """A renamed query with a foreach sink needs an approval before it starts without its old checkpoint, and there is
    no state to keep.

    Negative control: a query that is added beside the old one starts without an approval.
    """
    for renamed in (True, False):
        job = Registered(tmp_path / str(renamed), sink="foreach")
        old = stored_manifests(job.installation, job.installation.journal(JOB, "test").state(), "r0001")[QUERY]
        candidate = {"sums": replace(old, query="sums"), **({} if renamed else {QUERY: old})}
        evidence = {name: QueryEvidence(candidate=each) for name, each in candidate.items()}
        evidence[QUERY] = QueryEvidence(deployed=old, candidate=candidate.get(QUERY))
        state = deploy_second(job, candidate, Evidence(against="r0001", queries=evidence))
        assessed = assess_candidate(job.installation, state, state.operations["op2"], "r0002")
        assert assessed.refusal == ""
        way = assessed.transitions["sums"]
        assert (way.way, way.opaque) == (Transition.START, renamed)
        assert assessed.verdict is (Verdict.BACKUP if renamed else Verdict.RESUME)
        assert ("query sums may be a renamed query" in assessed.sentence) is renamed
        job.record(assessed)
        operation = job.installation.journal(JOB, "test").state().operations["op2"]
        assert (Step.APPROVE in path(operation)) is renamed
        assert back_up_state(job.installation, state, operation) == StateKept({})


def deploy_second(job: Registered, manifests: dict[str, Manifest], evidence: Evidence) -> JobState:
    """Open a deploy of a second release whose standby has stored this evidence, and return the job's state."""
    first = job.installation.journal(JOB, "test").state().releases["r0001"]
    Deploy.open(job.installation, "op2", DeployRequest(job=JOB, release="r0001"))
    stored = {
        query: put_object(job.installation.store, JOB, "manifests", to_json(each), ".json")
        for query, each in manifests.items()
    }
    job.record(ReleaseRegistered(release=replace(first, number=2)))
    job.record(ReleaseDescribed(release="r0002", manifests=stored))
    job.record(InstancePlanned(operation="op2", instance="op2-candidate", release="r0002", role=Role.CANDIDATE))
    Control(job.installation.store, JOB, "op2-candidate").write_evidence(evidence)
    return job.installation.journal(JOB, "test").state()


def test_a_lost_output_is_rebuilt_without_its_acceptance(tmp_path: Path) -> None:
    """A rebuild of a lost output needs no acceptance, because it writes the whole output; it has no way back to the
    lost one.
    """
    job = Registered(tmp_path)
    Deploy.open(job.installation, "op2", DeployRequest(job=JOB, release="r0001", strategy=Strategy.REBUILD))
    job.gather("op2", observations.output_lost("totals", "table totals is missing"), look=Look.SINK, batch=7)
    found = assess(job)
    assert "No rebuild" not in found.refusal
    assert found.refusal or (found.transitions[QUERY].way, found.transitions[QUERY].back) == (Transition.REBUILD, None)


@pytest.mark.parametrize(
    ("way", "again"),
    [
        (Transition.RESTORE, r"1 batch \(1 file\) to be read and written again; .*f8.json into sqlite:///.*"),
        (Transition.RETURN, "no rows are written again into sqlite:///.*"),
    ],
)
def test_the_rollback_cost_counts_replayed_batches(tmp_path: Path, way: Transition, again: str) -> None:
    """The cost of a rollback names the replayed batches, the output and how the sink treats repeated rows; a return to
    an earlier version replays none.
    """
    job = Registered(tmp_path)
    back = QueryTransition(way=way, before="v0001", version="v0001", batch=7, snapshot=job.take())
    job.commit(8)
    told = told_cost(job.installation, job.installation.journal(JOB, "test").state(), QUERY, back, {})
    assert re.fullmatch(f"query totals: {again}#totals; each row replaces the one with its key", told)
