"""An approval is valid only for the bundle, the checkpoint and the findings that the person saw."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from streamkeeper.errors import CheckpointDamaged, CheckpointLost, OperationRefused
from streamkeeper.lifecycle.actions import CheckDrift, Decision
from streamkeeper.model.manifests.evidence import Look
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.records.journal_records import ApprovalAnswered, InstanceAppointed
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import StateKept
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.approval import answer_approval, back_up_state
from streamkeeper.operations.deploys.deploy_acts import DeployActs
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.orchestration.asking import ask, asked

OPERATION = "op-asks"
APPROVED = Finding(
    rule="code-in-state-changed", severity=Severity.OPAQUE, where="function counted", evidence="another one"
)
NEW = Finding(rule="rehearsal-differs", severity=Severity.OPAQUE, where="query totals", evidence="3 rows differ")


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job with an opaque change that waits for approval; its state up to batch 7 is backed up."""
    job = Registered(tmp_path)
    ask(job, OPERATION)
    return job


def approve(job: Registered) -> None:
    answer_approval(job.installation, JOB, OPERATION, approved=True, by="ada", reason="seen")


def check(job: Registered, *found: Finding) -> None:
    """Use the approval after a later driver of the candidate has gathered these findings."""
    job.gather(OPERATION, *found, look=Look.REHEARSAL, release="r0002")
    acts = DeployActs(job.installation, job.installation.journal(JOB, "test"), JOB, OPERATION)
    acts.carry_out(Decision(step=Step.READY, action=CheckDrift(), reason=""))


def assert_void(job: Registered, why: str, *found: Finding) -> None:
    with pytest.raises(OperationRefused, match=f"^the approval is void: {why}"):
        check(job, *found)
    assert not asked(job, OPERATION).has_done(Step.READY)


def test_an_approval_holds_while_nothing_has_changed(job: Registered) -> None:
    """Negative control: with the same findings, and one more batch, the approval stays valid."""
    approve(job)
    job.commit(8)
    check(job, APPROVED)
    assert asked(job, OPERATION).has_done(Step.READY)


def test_an_approval_of_another_bundle_is_void(job: Registered) -> None:
    """An approval that was given for a different bundle is void."""
    job.record(
        ApprovalAnswered(
            operation=OPERATION, approved=True, by="ada", reason="seen", bundle="d" * 64, batches={QUERY: "7"}
        )
    )
    assert_void(job, "it was given for another bundle")


def test_an_approval_is_void_once_another_version_is_current(job: Registered) -> None:
    """An approval is void once a different checkpoint version is current, because the backup belongs to the earlier
    one.
    """
    approve(job)
    job.record(job.version("v0002"))
    job.record(InstanceAppointed(operation="op", instance="op-candidate", versions={QUERY: "v0002"}))
    assert_void(job, "query totals has a different checkpoint version now")


@pytest.mark.parametrize("how", ["an older copy", "another query's"])
def test_an_approval_is_void_once_the_checkpoint_differs_from_the_backup(job: Registered, how: str) -> None:
    """An approval is void once the checkpoint directory lacks the backed-up batch or belongs to a different query."""
    approve(job)
    if how == "an older copy":
        (job.directory / "commits" / "7").unlink()
    else:
        (job.directory / "metadata").write_text(json.dumps({"id": "another"}))
    assert_void(job, "the checkpoint of query totals does not contain batch 7")


def test_an_approval_is_void_once_the_check_finds_more(job: Registered) -> None:
    """An approval is void once the check has a finding that was not there when it was given."""
    approve(job)
    assert_void(job, r"the check has new findings, rehearsal-differs \(totals\)", APPROVED, NEW)


def test_a_version_that_no_driver_has_begun_has_no_state_to_keep(job: Registered) -> None:
    """A version that no driver has begun needs no backup, because its state is still in the version that it continues.
    Negative control: a version whose committed batches are missing is refused.
    """
    job.report(committed=7)
    shutil.rmtree(job.directory / "commits")
    with pytest.raises((CheckpointDamaged, CheckpointLost), match="but batch 7 was committed"):
        keep_state_of(job, "v0001")
    job.record(job.version("v0002"))
    assert keep_state_of(job, "v0002") == StateKept({})


def keep_state_of(job: Registered, version: str) -> StateKept:
    way = QueryTransition(way=Transition.RESUME, before=version, version=version, opaque=True)
    request = DeployRequest(job=JOB, release="r0001")
    operation = OperationState(operation="op2", request=request, steps=(), started=1, transitions={QUERY: way})
    return back_up_state(job.installation, job.installation.journal(JOB, "test").state(), operation)
