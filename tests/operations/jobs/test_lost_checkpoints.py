"""A checkpoint version that contains less than its records state is refused on every path, before the running driver is
touched.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from harness.checkpoint_files import QUERY_ID
from streamkeeper.cli.main import app
from streamkeeper.errors import CheckpointLost, OperationRefused
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.installation_record import InstallationRecord
from streamkeeper.model.records.journal_records import (
    Assessed,
    InstancePlanned,
    OperationStarted,
    ReleaseDescribed,
    ReleaseRegistered,
    Role,
    StartOffsetsKnown,
    StepDone,
)
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.settings.settings import Settings
from streamkeeper.operations.backups.pruning import plan_prune
from streamkeeper.operations.deploys.assessing import assess_candidate
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.deploys.version_acts import VersionActs
from streamkeeper.operations.jobs import registered
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.registered import live_checkpoints
from streamkeeper.operations.recovery.restoring import restore_version
from streamkeeper.registry.objects import put_object, read_object
from tests.checkpoints.damaging import LOSSES, lose
from tests.compatibility.manifests import STATEFUL
from tests.operations.registered_job import JOB, QUERY, Registered


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job that has committed batches 0 to 7, according to its journal and its driver's last status."""
    job = Registered(tmp_path)
    job.record(StartOffsetsKnown(query=QUERY, version="v0001", offsets=("null",), query_id=QUERY_ID))
    job.report(committed=7)
    return job


def assess(job: Registered, site: Installation | None = None, operation: str = "op2") -> Assessed:
    """Open a deploy of the same release and return its assessment."""
    Deploy.open(site or job.installation, operation, DeployRequest(job=JOB, release="r0001"))
    job.record(StepDone(operation=operation, step=Step.BUNDLE.tag, result={"release": "r0001"}))
    job.gather(operation)
    state = job.installation.journal(JOB, "test").state()
    return assess_candidate(site or job.installation, state, state.operations[operation], "r0001")


@pytest.mark.parametrize("how", LOSSES)
def test_a_deploy_onto_a_lost_checkpoint_is_refused_at_its_assessment(job: Registered, how: str) -> None:
    """A deploy onto a lost checkpoint is refused at its assessment, before anything is drained, and the sentence names
    the directory.
    """
    assert assess(job).verdict is Verdict.RESUME
    lose(job.directory, how)
    state = job.installation.journal(JOB, "test").state()
    found = assess_candidate(job.installation, state, state.operations["op2"], "r0001")
    assert found.verdict is Verdict.REFUSE
    assert found.refusal.startswith("query totals: checkpoint-lost")
    assert str(job.directory) in found.sentence


def test_without_the_loss_check_a_missing_checkpoint_resumes(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without the check for a loss, a missing checkpoint has the verdict RESUME, and the query would
    start from scratch.
    """
    lose(job.directory, "missing")
    monkeypatch.setattr(registered, "find_loss", lambda *_: "")
    assert assess(job).verdict is Verdict.RESUME


@pytest.mark.parametrize("how", LOSSES)
def test_backup_and_prune_leave_a_lost_checkpoint_alone(job: Registered, how: str) -> None:
    """A backup of a lost checkpoint is refused, so that its series gets no foreign snapshot, and a prune removes
    nothing of it.
    """
    job.take()
    lose(job.directory, how)
    with pytest.raises(CheckpointLost, match="streamkeeper snapshot restore sales/totals"):
        job.take()
    assert job.catalogue.numbers() == [1]
    if how != "missing":
        (told,) = plan_prune(job.installation).untold
        assert "is not what was recorded" in told


@pytest.mark.parametrize("how", LOSSES[1:])
def test_fsck_with_the_journal_reports_a_lost_checkpoint(
    job: Registered, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """With the journal at hand ``fsck`` reports ``checkpoint-lost`` for a checkpoint that started from scratch; without
    the journal its files are consistent and nothing is reported.
    """
    monkeypatch.setenv("STREAMKEEPER_HOME", job.installation.settings.home)
    monkeypatch.setenv("STREAMKEEPER_STORE", job.installation.settings.store)
    monkeypatch.setenv("STREAMKEEPER_CHECKPOINTS", job.installation.settings.checkpoints)
    assert "checkpoint-lost" not in CliRunner().invoke(app, ["fsck", str(job.directory)]).output
    lose(job.directory, how)
    found = CliRunner().invoke(app, ["fsck", str(job.directory)])
    assert (found.exit_code, "damage checkpoint-lost" in found.output) == (1, True), found.output
    monkeypatch.delenv("STREAMKEEPER_HOME")
    assert "checkpoint-lost" not in CliRunner().invoke(app, ["fsck", str(job.directory)]).output


def test_after_a_restore_of_a_lost_checkpoint_a_deploy_resumes(job: Registered) -> None:
    """After a restore of the lost checkpoint, a deploy is assessed as RESUME."""
    job.take()
    lose(job.directory, "missing")
    job.write_table(7)
    restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    assert assess(job).verdict is Verdict.RESUME


def test_a_version_is_found_under_its_recorded_root_after_the_home_changed(job: Registered, tmp_path: Path) -> None:
    """With a different home or root of checkpoints over the same store, the version is found under its recorded root,
    and the report has the finding ``checkpoint-elsewhere``.
    """
    restore = job.take()
    job.write_table(7)
    assert restore == "s0001"
    restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    elsewhere = Settings(
        store=job.installation.settings.store,
        checkpoints=str(tmp_path / "other"),
        jobs="",
        home=str(tmp_path / "home2"),
    )
    site = Installation(settings=elsewhere, store=job.installation.store, runner=job.runner)
    state = job.installation.journal(JOB, "test").state()
    assert live_checkpoints(site, state) == {QUERY: str(job.directory.with_name("v0002"))}
    found = assess(job, site)
    assert found.verdict is Verdict.RESUME
    assert '"rule":"checkpoint-elsewhere"' in read_object(site.store, JOB, "reports", found.report, ".json").decode()


def test_a_version_without_a_recorded_root_is_refused_under_a_different_root(job: Registered, tmp_path: Path) -> None:
    """A version without a recorded root, as in older journals, is refused under a root that does not contain its
    batches.
    """
    settings = replace(job.installation.settings, checkpoints=str(tmp_path / "other"))
    found = assess(job, Installation(settings=settings, store=job.installation.store, runner=job.runner))
    assert found.verdict is Verdict.REFUSE
    assert f"{tmp_path}/other/sales/totals/v0001 is missing" in found.sentence


def test_a_missing_checkpoint_of_a_removed_query_does_not_refuse_the_deploy(job: Registered) -> None:
    """The missing checkpoint of a query that the release no longer contains does not refuse the deploy."""
    manifest = replace(STATEFUL, query="other")
    digest = put_object(job.installation.store, JOB, "manifests", to_json(manifest), ".json")
    first = job.installation.journal(JOB, "test").state().releases["r0001"]
    job.record(ReleaseRegistered(release=replace(first, number=2, content=replace(first.content, bundle="d" * 64))))
    job.record(ReleaseDescribed(release="r0002", manifests={"other": digest}))
    lose(job.directory, "missing")
    Deploy.open(job.installation, "op2", DeployRequest(job=JOB, release="r0002"))
    state = job.installation.journal(JOB, "test").state()
    found = assess_candidate(job.installation, state, state.operations["op2"], "r0002")
    assert found.refusal == ""
    assert "checkpoint-lost" not in found.sentence


def test_a_copied_installation_appoints_no_instance_in_an_original_checkpoint(job: Registered) -> None:
    """In a copied installation no instance, not even the fallback of an operation that was in progress, is appointed in
    a checkpoint of the original installation.
    """
    copy = InstallationRecord(number=2, id="copy", place="", first="original", at="")
    site = dataclasses.replace(job.installation, record=copy)
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
    job.record(InstancePlanned(operation="op2", instance="op2-fallback", release="r0001", role=Role.CANDIDATE))
    with pytest.raises(OperationRefused, match="belongs to the installation that this one was copied from"):
        VersionActs(site, site.journal(JOB, "op2"), JOB, "op2").appoint("op2-fallback", {})
    assert site.journal(JOB, "test").state().appointed == "op-candidate"
