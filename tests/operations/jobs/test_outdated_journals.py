"""A journal that is older than the claims beside its checkpoints: every operation refuses it, and nothing is
recorded.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.checkpoint_files import QUERY_ID
from streamkeeper.checkpoints.claims import KEPT_CLAIMS, claims_beside, leave_claim, read_newest
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import JournalOutdated
from streamkeeper.health.acts import decide_acts
from streamkeeper.model.protocol.driver_messages import DriverExit, DriverState
from streamkeeper.model.records.epoch_claim import EpochClaim
from streamkeeper.model.records.installation_record import InstallationRecord
from streamkeeper.model.records.journal_records import (
    DesiredChanged,
    InstanceEnded,
    InstancePlanned,
    OperationStarted,
    Role,
    StartOffsetsKnown,
)
from streamkeeper.model.requests.diagnosis import Problem
from streamkeeper.model.requests.request import DeployRequest, Rollback
from streamkeeper.model.watch.fleet_index import FleetIndex
from streamkeeper.model.watch.health import Urgency
from streamkeeper.operations.backups.pruning import plan_prune
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.deploys.starting import open_start
from streamkeeper.operations.deploys.version_acts import VersionActs
from streamkeeper.operations.fleet.watching import WatchPass, run_pass
from streamkeeper.operations.jobs import outdated
from streamkeeper.operations.recovery.diagnosing import diagnose_job
from streamkeeper.operations.recovery.lost_journals import plan_rebuild
from streamkeeper.operations.recovery.restoring import restore_version
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.fleet import read_index
from tests.health.looks import dead
from tests.lifecycle.test_rebuilding import ASKED
from tests.operations.registered_job import JOB, QUERY, Registered

NEWER = EpochClaim(epoch=2, version="v0002", instance="op2-candidate", generation=1)


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job with a dead driver, a snapshot, and a journal that stops at epoch 1 in v0001."""
    job = Registered(tmp_path)
    job.record(StartOffsetsKnown(query=QUERY, version="v0001", offsets=("null",), query_id=QUERY_ID))
    job.report(committed=7)
    job.take()
    job.write_table(7)
    ended = DriverExit(instance="op-candidate", state=DriverState.FAILED, code=5, error="terminated by signal 9")
    Control(job.installation.store, JOB, "op-candidate").write_exit(ended)
    leave_claim(claims(job), EpochClaim(epoch=1, version="v0001", instance="op-candidate", generation=1))
    return job


def claims(job: Registered) -> LocalTree:
    folder = claims_beside(LocalTree(job.directory))
    assert isinstance(folder, LocalTree)
    return folder


def start(job: Registered) -> None:
    open_start(job.installation, JOB, requested_by="ann", reason="", operation="op3")


def deploy(job: Registered) -> None:
    Deploy.open(job.installation, "op3", DeployRequest(job=JOB, release="r0001"))


def dry_run(job: Registered) -> None:
    Deploy.open(job.installation, "op3", DeployRequest(job=JOB, release="r0001", dry_run=True))


def roll_back(job: Registered) -> None:
    Deploy.open(job.installation, "op3", DeployRequest(job=JOB, release="r0001").of_kind(Rollback()))


def restore(job: Registered) -> None:
    restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))


def back_up(job: Registered) -> None:
    job.take()


def fall_back(job: Registered) -> None:
    """Appoint the fallback of an operation that was open when the store was copied."""
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
    job.record(InstancePlanned(operation="op2", instance="op2-fallback", release="r0001", role=Role.FALLBACK))
    job.record(InstanceEnded(operation="op", instance="op-candidate", proof="it is gone", exit=""))
    VersionActs(job.installation, job.installation.journal(JOB, "op2"), JOB, "op2").appoint("op2-fallback", {})


DOORS = [start, deploy, dry_run, roll_back, restore, back_up, fall_back]


@pytest.mark.parametrize("door", DOORS)
def test_every_operation_is_refused_with_an_outdated_journal(
    job: Registered, door: Callable[[Registered], None]
) -> None:
    """With an outdated journal a start, a deploy, a dry run, a rollback, a restore, a backup and a fallback are
    refused, and no instance is appointed.
    """
    leave_claim(claims(job), NEWER)
    with pytest.raises(JournalOutdated) as refused:
        door(job)
    assert "was claimed for v0002 under epoch 2, and the journal ends at epoch 1" in str(refused.value)
    assert "registry rebuild" in refused.value.hint
    state = job.installation.journal(JOB, "test").state()
    assert (state.appointed, state.next_epoch(QUERY), len(state.versions[QUERY])) == ("op-candidate", 2, 1)
    assert job.catalogue.numbers() == [1]


@pytest.mark.parametrize("door", DOORS)
def test_without_the_newer_claim_check_an_outdated_journal_is_accepted(
    job: Registered, door: Callable[[Registered], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the check for newer claims, every operation is accepted by the outdated journal."""
    leave_claim(claims(job), NEWER)
    monkeypatch.setattr(outdated, "find_newer", lambda *_: "")
    before = job.installation.journal(JOB, "test").state().number, job.catalogue.numbers()
    door(job)
    after = job.installation.journal(JOB, "test").state().number, job.catalogue.numbers()
    assert door is back_up or after != before


def test_a_journal_that_knows_its_claims_is_not_refused(job: Registered) -> None:
    """A journal that has recorded its own newest claim is accepted, and claims of a different installation under the
    same root are ignored.
    """
    leave_claim(claims(job), replace(NEWER, installation="another"))
    job.record(job.epoch("v0001", 2))
    leave_claim(claims(job), EpochClaim(epoch=2, version="v0001", instance="op-candidate", generation=2))
    site = dataclasses.replace(
        job.installation, record=InstallationRecord(number=1, id="mine", place="", first="mine", at="")
    )
    Deploy.open(site, "op3", DeployRequest(job=JOB, release="r0001"))
    assert outdated.find_outdated(site, site.journal(JOB, "test").state()) == ""


def test_a_claim_made_after_the_journal_was_read_is_not_newer(job: Registered) -> None:
    """A claim that a starting driver makes after the journal was read does not make the journal outdated. Negative
    control: without its journal entry the same claim does.
    """
    read_before = job.installation.journal(JOB, "test").state()
    claim = EpochClaim(epoch=2, version="v0001", instance="op-candidate", generation=2)
    leave_claim(claims(job), claim)
    assert "under epoch 2" in outdated.find_outdated(job.installation, read_before)
    job.record(job.epoch("v0001", 2))
    assert outdated.find_outdated(job.installation, read_before) == ""


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        (replace(NEWER, epoch=1), "belongs to checkpoint v0002, which the journal does not record"),
        (
            EpochClaim(epoch=1, version="v0001", instance="other", generation=1),
            "under epoch 1 by other, but the journal records this epoch for op-candidate",
        ),
    ],
    ids=["version", "instance"],
)
def test_a_claim_of_a_different_writer_with_an_equal_epoch_is_newer(
    tmp_path: Path, claim: EpochClaim, told: str
) -> None:
    """A claim with an equal epoch but an unknown version, or a different instance, makes the journal outdated."""
    job = Registered(tmp_path)
    leave_claim(claims(job), claim)
    with pytest.raises(JournalOutdated, match=told):
        deploy(job)


def test_two_drivers_cannot_claim_the_same_epoch_of_a_checkpoint(job: Registered) -> None:
    """Of two drivers with the same epoch the second is refused, and a repeated claim by the first one is accepted."""
    leave_claim(claims(job), NEWER)
    leave_claim(claims(job), NEWER)
    with pytest.raises(
        JournalOutdated, match=r"the journal names op3-candidate, but the claim file \S+ names op2-candidate"
    ):
        leave_claim(claims(job), replace(NEWER, instance="op3-candidate"))


def test_only_the_newest_claims_are_kept(job: Registered) -> None:
    """Only the newest claims are kept, so that a driver that restarts often does not fill the folder."""
    for epoch in range(2, 30):
        leave_claim(claims(job), replace(NEWER, epoch=epoch))
    assert len(claims(job).files("none")) == KEPT_CLAIMS
    newest = read_newest(claims(job), "")
    assert newest is not None
    assert newest.epoch == 29


def test_a_prune_removes_nothing_of_a_job_with_an_outdated_journal(job: Registered) -> None:
    """A prune removes nothing of a job with an outdated journal, and reports the job."""
    leave_claim(claims(job), NEWER)
    run = plan_prune(job.installation)
    assert run.directories == ()
    assert any("the journal of job sales is older than what was written" in told for told in run.untold)


def test_the_diagnosis_of_an_outdated_journal_offers_no_action(job: Registered) -> None:
    """The diagnosis of a job with an outdated journal names that cause, offers no action and advises a rebuild of the
    registry.
    """
    leave_claim(claims(job), NEWER)
    found = diagnose_job(job.installation, JOB)
    assert found.cause is Problem.JOURNAL_OUTDATED
    assert not any(option.possible for option in found.options)
    assert "registry rebuild" in found.advice


def pass_of(job: Registered) -> FleetIndex:
    run_pass(WatchPass(installation=job.installation, acts=False))
    index = read_index(job.installation.store, "")
    assert index is not None
    return index


def test_the_watch_pages_an_outdated_journal_and_starts_nothing(job: Registered) -> None:
    """The watch pages a dead driver with an outdated journal under the rule ``journal-outdated`` and starts nothing."""
    leave_claim(claims(job), NEWER)
    report = run_pass(WatchPass(installation=job.installation))
    (symptom,) = [each for row in report.index.rows for each in row.symptoms if each.severity is Urgency.PAGE]
    assert symptom.rule == "journal-outdated"
    assert "under epoch 2" in symptom.cause
    assert not [line for line in report.lines if "starts" in line or "could not" in line], report.lines


def test_without_the_newer_claim_check_the_watch_begins_a_start(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the check for newer claims, the same pass begins a start from v0001."""
    leave_claim(claims(job), NEWER)
    monkeypatch.setattr(outdated, "find_newer", lambda *_: "")
    report = run_pass(WatchPass(installation=job.installation))
    assert [line for line in report.lines if "start" in line], report.lines


def test_the_watch_knows_a_journal_that_has_lost_entries(job: Registered) -> None:
    """The watch pages a journal that has lost entries without a newer claim, such as a stop, because the last index
    records how far the journal went.
    """
    job.record(DesiredChanged(serve=False, requested_by="ann", reason="maintenance"))
    row = pass_of(job).rows[0]
    assert row.worst is not Urgency.PAGE
    newest = max(job.installation.store.list(f"registry/{JOB}/journal/"))
    job.installation.store.delete(newest)
    for _ in range(2):
        row = pass_of(job).rows[0]
        assert [each.rule for each in row.symptoms if each.severity is Urgency.PAGE] == ["journal-outdated"]
        assert "but the watch has read its entry" in row.symptoms[0].cause
    assert row.memory.facts is not None
    assert row.memory.facts.stopped == ""
    assert list(decide_acts(dead(outdated="it went back"), (), {}, now=0.0)) == []
    job.record(DesiredChanged(serve=False, requested_by="ann", reason="again"))
    assert "journal-outdated" not in [each.rule for each in pass_of(job).rows[0].symptoms]


def test_a_rebuild_without_the_outdated_journal_continues_above_every_claim(job: Registered) -> None:
    """A rebuild refuses an outdated journal and states how to move it away; without that journal it continues from the
    claimed version, above its epoch.
    """
    leave_claim(claims(job), NEWER)
    asked = replace(ASKED, unfenced=frozenset(), no_driver_elsewhere=True)
    (plan,) = plan_rebuild(job.installation, asked, job=JOB, unfenced=[f"{JOB}/{QUERY}"]).plans
    assert plan.record is None
    assert "older than what was written" in plan.refusals[0]
    assert f"registry/{JOB} away" in plan.refusals[0]
    shutil.copytree(job.directory, job.directory.with_name("v0002"))
    shutil.rmtree(Path(job.installation.settings.store) / "registry" / JOB)
    (plan,) = plan_rebuild(job.installation, asked, job=JOB, unfenced=[f"{JOB}/{QUERY}"]).plans
    assert plan.record is not None, plan.refusals
    assert (plan.record.queries[QUERY].version, plan.record.epoch) == ("v0002", 2)


def test_a_rebuild_counts_the_claims_of_a_query_without_versions(job: Registered) -> None:
    """A rebuilt journal has a higher epoch than the claims of a removed query without versions. Negative control: a
    newer claim of that query makes it outdated.
    """
    removed = LocalTree(job.directory.parent.with_name("removed") / ".claims")
    leave_claim(removed, replace(NEWER, epoch=9))
    shutil.rmtree(Path(job.installation.settings.store) / "registry" / JOB)
    asked = replace(ASKED, unfenced=frozenset(), no_driver_elsewhere=True)
    (plan,) = plan_rebuild(job.installation, asked, job=JOB, unfenced=[f"{JOB}/{QUERY}"]).plans
    assert plan.record is not None, plan.refusals
    job.record(plan.record)
    state = job.installation.journal(JOB, "test").state()
    assert sorted(state.versions) == [QUERY]
    assert outdated.find_outdated(job.installation, state) == ""
    leave_claim(removed, replace(NEWER, epoch=10))
    assert "query removed" in outdated.find_outdated(job.installation, state)
