"""What a deploy's assessment rests on: the evidence that its driver has left, and nothing that is missing from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.compatibility import observations
from streamkeeper.model.coding import from_json
from streamkeeper.model.evidence import Evidence, Look
from streamkeeper.model.finding import Assessment, Verdict
from streamkeeper.model.journal import Assessed
from streamkeeper.model.request import DeployRequest
from streamkeeper.operations.assessing import assess_candidate
from streamkeeper.operations.deploy import Deploy
from streamkeeper.registry.objects import read_object
from tests.operations.registered_job import JOB, QUERY, Registered


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job that serves, and a deploy of it that is open."""
    job = Registered(tmp_path)
    Deploy.open(job.site, "op2", DeployRequest(job=JOB, release="r0001"))
    return job


def assess(job: Registered) -> Assessed:
    """The assessment of the open deploy."""
    state = job.site.journal(JOB, "test").state()
    return assess_candidate(job.site, state, state.operations["op2"], "r0001")


def rules(job: Registered, found: Assessed) -> set[str]:
    """Of the stored report."""
    report = read_object(job.site.store, JOB, "reports", found.report, ".json")
    return {each.rule for each in from_json(report, Assessment, where="report").queries[QUERY].findings}


def test_the_evidence_that_was_judged_is_stored(job: Registered) -> None:
    """Whoever asks later sees what the verdict rests on."""
    job.gather("op2")
    found = assess(job)
    assert found.verdict is Verdict.RESUME
    stored = read_object(job.site.store, JOB, "evidence", found.evidence, ".json")
    assert from_json(stored, Evidence, where="evidence").queries[QUERY].checkpoint == str(job.directory)


def test_without_evidence_nothing_is_resumed(job: Registered) -> None:
    """The manifests alone are equal, and nobody has looked at the checkpoint."""
    found = assess(job)
    assert (found.verdict, rules(job, found)) == (Verdict.BACKUP, {"not-looked"})


def test_evidence_against_another_release_is_none(job: Registered) -> None:
    """What was gathered against one release says nothing of going on from another."""
    job.gather("op2", against="r0007")
    found = assess(job)
    assert (found.verdict, rules(job, found)) == (Verdict.BACKUP, {"not-looked"})


def test_a_sink_that_is_ahead_refuses_a_deploy_before_anything_is_drained(job: Registered) -> None:
    """The candidate would skip as many batches in silence."""
    job.gather("op2", observations.sink_ahead("totals", 9, 7), look=Look.SINK)
    found = assess(job)
    assert found.verdict is Verdict.REFUSE
    assert found.refusal.startswith("query totals: sink-ahead-of-checkpoint")
