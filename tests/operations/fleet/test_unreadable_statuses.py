"""An unreadable last status of a driver: what needs no proof of its commits continues, everything else is refused at
once.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from streamkeeper.errors import RegistryDamaged
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.operations.deploys import starting
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.deploys.starting import open_start
from streamkeeper.operations.deploys.stopping import stop_job
from streamkeeper.operations.jobs.overview import job_overview
from streamkeeper.operations.jobs.overview_facts import overview_facts
from streamkeeper.operations.jobs.registered import find_version_loss
from streamkeeper.operations.recovery.diagnosing import diagnose_job
from streamkeeper.registry.driver_control import Control
from tests.operations.registered_job import JOB, QUERY, Registered

DRIVER = "op-candidate"
ASKED = {"requested_by": "ann", "reason": "a test"}


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job with a dead driver whose status file is truncated."""
    job = Registered(tmp_path)
    job.report(committed=7)
    status = status_of(job)
    status.write_bytes(status.read_bytes()[:60])
    return job


def status_of(job: Registered) -> Path:
    return Path(job.installation.settings.store) / "control" / JOB / DRIVER / "status.json"


def start(job: Registered) -> object:
    return open_start(job.installation, JOB, operation="again", **ASKED)


def deploy(job: Registered) -> object:
    return Deploy.open(job.installation, "op2", DeployRequest(job=JOB, release="r0001"))


def recover(job: Registered) -> object:
    return diagnose_job(job.installation, JOB)


@pytest.mark.parametrize("act", [start, deploy, recover])
def test_start_deploy_and_diagnosis_are_refused_with_an_unreadable_status(
    job: Registered, act: Callable[[Registered], object]
) -> None:
    """A start, a deploy and a diagnosis are refused with an unreadable status before anything is recorded. Negative
    control: with a readable status each succeeds.
    """
    before = job.installation.journal(JOB, "test").state().number
    with pytest.raises(RegistryDamaged, match="The last status of a driver cannot be read"):
        act(job)
    assert job.installation.journal(JOB, "test").state().number == before
    status_of(job).unlink()
    job.report(committed=7)
    assert act(job) is not None


def test_without_the_status_check_a_start_leaves_an_operation_open(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the check of the status, a start leaves an open operation."""
    for module in (starting, Deploy.open.__func__.__globals__):  # type: ignore[attr-defined]
        if isinstance(module, dict):
            monkeypatch.setitem(module, "must_know_commits", lambda *_: None)
        else:
            monkeypatch.setattr(module, "must_know_commits", lambda *_: None)
    start(job)
    assert job.installation.journal(JOB, "test").state().open_operation is not None


def test_a_stop_succeeds_and_the_overview_names_the_unreadable_status(job: Registered) -> None:
    """A stop succeeds with an unreadable status, because the runner proves the termination, and the overview names the
    unreadable file.
    """
    seen = job_overview(job.installation, JOB)
    assert (seen.standing, seen.life) == (JobStatus.FAILED, Life.DEAD)
    facts = {fact.name: fact.text for fact in overview_facts(seen, beat="")}
    assert f"control/{JOB}/{DRIVER}/status.json cannot be read" in facts["last report"]
    assert "is stopped" in stop_job(job.installation, JOB, operation="stop-1", **ASKED).sentence
    assert job_overview(job.installation, JOB).standing is JobStatus.STOPPED


@pytest.mark.parametrize("life", [Life.ALIVE, Life.UNKNOWN])
def test_an_unreadable_status_proves_no_death(job: Registered, life: Life) -> None:
    """With an unreadable status, a driver that is alive or cannot be observed is not shown as terminated."""
    job.runner.life = life
    assert job_overview(job.installation, JOB).standing is (
        JobStatus.STARTING if life is Life.ALIVE else JobStatus.UNKNOWN
    )


def test_an_unreadable_status_is_not_proof_that_nothing_was_committed(job: Registered) -> None:
    """With a missing checkpoint and an unreadable status, the check for a loss fails rather than assume that nothing
    was committed.
    """
    shutil.rmtree(job.directory)
    with pytest.raises(RegistryDamaged):
        find_version_loss(job.installation, job.installation.journal(JOB, "test").state(), QUERY, "v0001")
    assert Control(job.installation.store, JOB, DRIVER).find_status() is None
