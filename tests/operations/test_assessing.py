"""What a deploy's assessment rests on: the evidence that its driver has left, and nothing that is missing from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.compatibility import observations
from streamkeeper.model.coding import from_json
from streamkeeper.model.evidence import Evidence, Look
from streamkeeper.model.finding import Assessment, Verdict
from streamkeeper.model.journal import Assessed
from streamkeeper.model.request import DeployRequest, Strategy
from streamkeeper.model.ways import Way
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


def test_a_lost_output_refuses_a_deploy_and_an_accepted_loss_does_not(tmp_path: Path) -> None:
    """The acceptance is a note in the report, a clause of the sentence, and the batch that the driver is told."""
    lost = observations.output_lost("totals", "the database file is missing, and batch 7 of v0001 was committed")
    for accepts in (False, True):
        job = Registered(tmp_path / str(accepts))
        Deploy.open(
            job.site, "op2", DeployRequest(job=JOB, release="r0001", accept_output_loss=accepts, requested_by="ada")
        )
        job.gather("op2", lost, look=Look.SINK, batch=7)
        found = assess(job)
        if not accepts:
            assert (found.verdict, found.ways) == (Verdict.REFUSE, {})
            assert "output-lost (totals: the database file is missing" in found.refusal
            continue
        assert (found.verdict, found.refusal, rules(job, found)) == (Verdict.RESUME, "", {"output-lost"})
        assert found.ways[QUERY].output_lacks == 7
        assert found.sentence.endswith(
            "the output of query totals goes on after batch 7 without the rows that it lacks"
        )


def test_a_lost_output_is_rebuilt_without_its_acceptance(tmp_path: Path) -> None:
    """A rebuild writes all of it again; nothing leads back to the output that it leaves."""
    job = Registered(tmp_path)
    Deploy.open(job.site, "op2", DeployRequest(job=JOB, release="r0001", strategy=Strategy.REBUILD))
    job.gather("op2", observations.output_lost("totals", "table totals is missing"), look=Look.SINK, batch=7)
    found = assess(job)
    assert "no rebuild" not in found.refusal
    assert found.refusal or (found.ways[QUERY].way, found.ways[QUERY].back) == (Way.REBUILD, None)
