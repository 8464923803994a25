"""A forgotten job is hidden but keeps all its data, and can be deployed again only with an explicit revival."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from streamkeeper.errors import NotFound, OperationOpen, OperationRefused
from streamkeeper.model.records.journal_records import (
    DesiredChanged,
    InstanceEnded,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    ReleasePromoted,
)
from streamkeeper.model.requests.request import Deployment, DeployRequest, RequestKind, Rollback
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.deploys.starting import open_start
from streamkeeper.operations.fleet.fleet_metrics import look_at_fleet
from streamkeeper.operations.fleet.watching import WatchPass, look_now, run_pass
from streamkeeper.operations.jobs.forgetting import forget_job
from streamkeeper.operations.jobs.targets import all_targets, query_target
from streamkeeper.registry.incidents import IncidentLog
from tests.operations.registered_job import JOB, QUERY, Registered

STOPPED = DesiredChanged(serve=False, requested_by="cli:ada", reason="moved")
ENDED = InstanceEnded(operation="op", instance="op-candidate", proof="gone", exit="0")


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A stopped job whose driver is proven dead."""
    made = Registered(tmp_path)
    made.record(STOPPED)
    made.record(ENDED)
    return made


def forget(job: Registered, name: str = JOB) -> list[str]:
    return forget_job(job.installation, name, requested_by="cli:ada", reason="the shop has closed")


def files(job: Registered) -> dict[Path, bytes]:
    """Return all files of the installation except the journal."""
    root = Path(job.installation.settings.checkpoints).parent
    return {each: each.read_bytes() for each in root.rglob("*") if each.is_file() and "journal" not in each.parts}


def shown(job: Registered) -> list[str]:
    """Return the jobs that are not forgotten, as ``streamkeeper jobs`` lists them."""
    return [row.job for row in look_now(job.installation, now=time.time()).rows if not row.forgotten]


def test_forgetting_a_job_keeps_and_lists_all_its_data(job: Registered) -> None:
    """Forgetting a job changes no byte of its checkpoint, snapshots, output and records, lists what is kept, and adds
    one journal entry; forgetting it a second time adds none.
    """
    job.take()
    before, number = files(job), job.installation.journal(JOB, "test").state().number
    told = "\n".join(forget(job))
    assert files(job) == before
    assert (
        f"job {JOB} was forgotten by cli:ada (the shop has closed); its old checkpoint still exists: totals v0001"
        in told
    )
    for word in (f"checkpoint {job.directory}", f"1 snapshots of {JOB}/{QUERY}", f"{job.warehouse}#totals", "records"):
        assert f"kept: {word}" in told or word in told
    forget_job(job.installation, JOB, requested_by="cli:bob", reason="again")
    state = job.installation.journal(JOB, "test").state()
    assert (state.number, state.forgotten.requested_by if state.forgotten else "") == (number + 1, "cli:ada")


@pytest.mark.parametrize(
    ("record", "kind", "told"),
    [
        (
            DesiredChanged(serve=True, requested_by="cli:ada", reason=""),
            OperationRefused,
            "is not stopped; .* r0001 .*stop",
        ),
        (OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()), OperationOpen, "op2"),
    ],
)
def test_a_job_that_runs_or_has_an_open_operation_cannot_be_forgotten(
    job: Registered, record: Record, kind: type[Exception], told: str
) -> None:
    """A job that is not stopped or has an open operation cannot be forgotten; the refusal names what to do first, and
    nothing is recorded.
    """
    job.record(record)
    number = job.installation.journal(JOB, "test").state().number
    with pytest.raises(kind, match=told):
        forget(job)
    assert job.installation.journal(JOB, "test").state().number == number


def test_a_job_whose_driver_is_not_proven_dead_cannot_be_forgotten(tmp_path: Path) -> None:
    """A job whose driver is not proven dead cannot be forgotten, and forgetting an unknown name writes nothing."""
    made = Registered(tmp_path)
    made.record(STOPPED)
    with pytest.raises(OperationRefused, match="op-candidate of job sales is not proven terminated"):
        forget(made)
    with pytest.raises(NotFound, match="job sails is not known"):
        forget(made, "sails")
    assert [*made.installation.store.list("registry/sails/")] == []


def test_a_forgotten_job_disappears_from_list_metrics_and_incidents(job: Registered) -> None:
    """A forgotten job disappears from the list and the metrics, and its incidents are cleared. Negative control:
    before, it appears in all of them.
    """
    job.record(replace(job.epoch("v0001", 2), committed=7))
    shutil.rmtree(job.directory)
    watch = WatchPass(installation=job.installation, acts=False)
    run_pass(watch)
    assert shown(job) == [JOB]
    assert [each.job for each in look_at_fleet(job.installation, time.time()).jobs] == [JOB]
    open_before = IncidentLog(job.installation.store, JOB).state().open
    forget(job)
    run_pass(watch)
    assert shown(job) == []
    assert [*look_at_fleet(job.installation, time.time()).jobs] == []
    assert open_before
    assert IncidentLog(job.installation.store, JOB).state().open == {}


def test_a_forgotten_jobs_queries_are_backed_up_by_name_only(job: Registered) -> None:
    """A forgotten job is not backed up automatically, but a person can still back up its query by name."""
    assert [each.series for each in all_targets(job.installation)] == [f"{JOB}/{QUERY}"]
    forget(job)
    assert all_targets(job.installation) == all_targets(job.installation, job=JOB) == []
    assert query_target(job.installation, JOB, QUERY).location == str(job.directory)


def deploy(job: Registered, kind: RequestKind | None = None, **fields: Any) -> object:
    request = DeployRequest(job=JOB, release="r0001", **fields)
    return Deploy.open(job.installation, "op2", request.of_kind(kind or Deployment()))


@pytest.mark.parametrize(
    "again",
    [
        deploy,
        lambda job: deploy(job, dry_run=True),
        lambda job: deploy(job, Rollback()),
        lambda job: open_start(job.installation, JOB, requested_by="ada", reason="", operation="op2"),
    ],
    ids=["deploy", "dry run", "rollback", "start"],
)
def test_a_deploy_of_a_forgotten_job_is_refused_because_of_its_old_checkpoint(
    job: Registered, again: Callable[[Registered], object]
) -> None:
    """A deploy, dry run, rollback or start of a forgotten job is refused with a message about its old checkpoint and
    ``--revive``, and nothing is recorded.
    """
    number = forget_and_count(job)
    words = (
        r"forgotten by cli:ada \(the shop has closed\); its old checkpoint still exists: totals v0001 "
        r".*--revive` to continue"
    )
    with pytest.raises(OperationRefused, match=words):
        again(job)
    assert job.installation.journal(JOB, "test").state().number == number


def test_a_stopped_but_not_forgotten_job_is_deployed_without_refusal(job: Registered) -> None:
    """Negative control: a job that is stopped but not forgotten is deployed without a refusal."""
    deploy(job)
    assert job.installation.journal(JOB, "test").state().open_operation is not None


def forget_and_count(job: Registered) -> int:
    forget(job)
    return job.installation.journal(JOB, "test").state().number


def test_a_deploy_with_revive_makes_a_forgotten_job_visible(job: Registered) -> None:
    """A deploy with ``revive`` makes a forgotten job visible again, whatever the outcome; a dry run leaves it
    forgotten.
    """
    forget(job)
    Deploy.open(job.installation, "dry", DeployRequest(job=JOB, release="r0001", dry_run=True, revive=True))
    job.record(OperationFinished(operation="dry", outcome=Outcome.DRY_RUN, sentence=""))
    assert job.installation.journal(JOB, "test").state().forgotten is not None
    deploy(job, revive=True)
    assert shown(job) == [JOB]
    job.record(OperationFinished(operation="op2", outcome=Outcome.REFUSED, sentence=""))
    assert job.installation.journal(JOB, "test").state().forgotten is None
    assert shown(job) == [JOB]
    job.record(ReleasePromoted(operation="op2", release="r0001", instance="op-candidate"))
    with pytest.raises(OperationRefused, match="is not stopped; its current release is r0001"):
        forget(job)


def test_a_forgotten_job_without_a_checkpoint_is_deployed_without_revival(job: Registered) -> None:
    """A forgotten job without a checkpoint is deployed again without a revival, because there is no state that it could
    continue by accident.
    """
    journal = job.installation.journal("orders", "test")
    journal.append(lambda _: OperationStarted(operation="op", request=DeployRequest(job="orders"), steps=()))
    journal.append(lambda _: OperationFinished(operation="op", outcome=Outcome.REFUSED, sentence="no"))
    assert forget(job, "orders")[0] == "job orders was forgotten by cli:ada (the shop has closed)"
    Deploy.open(job.installation, "op2", DeployRequest(job="orders", params={"a": 1}))
    assert job.installation.journal("orders", "test").state().forgotten is None
