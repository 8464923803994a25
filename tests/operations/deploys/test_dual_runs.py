"""Only one dual run at a time: which operation waits for which one, and until when."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.journal_records import (
    Assessed,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    Role,
    ShadowAppointed,
    StepDone,
)
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.settings.settings import Settings
from streamkeeper.operations.deploys.dual_runs import dual_run_before
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.local import LocalStore
from tests.operations.registered_job import RestingRunner


@pytest.fixture
def site(tmp_path: Path) -> Installation:
    settings = Settings(
        store=str(tmp_path), checkpoints=str(tmp_path / "cp"), jobs=str(tmp_path / "jobs"), home=str(tmp_path / "home")
    )
    return Installation(settings=settings, store=LocalStore(tmp_path / "store"), runner=RestingRunner())


def record(site: Installation, job: str, *records: Record) -> None:
    for each in records:
        Journal(site.store, job, writer="test").append(lambda _, each=each: each)


def rebuild(site: Installation, job: str, *, way: Transition = Transition.REBUILD) -> None:
    """Record an operation ``op-<job>`` that is assessed with this transition."""
    operation = f"op-{job}"
    record(
        site,
        job,
        OperationStarted(operation=operation, request=DeployRequest(job=job), steps=()),
        InstancePlanned(operation=operation, instance=f"{operation}-candidate", release="r0002", role=Role.CANDIDATE),
        Assessed(
            operation=operation,
            verdict=Verdict.SWITCH,
            reverse=Verdict.SWITCH,
            sentence="",
            report="",
            transitions={"q": QueryTransition(way=way)},
        ),
    )


def begin(site: Installation, job: str) -> None:
    record(site, job, ShadowAppointed(operation=f"op-{job}", instance=f"op-{job}-candidate"))


def before(site: Installation, job: str) -> str:
    found = dual_run_before(site, job, f"op-{job}")
    return found.sentence if found is not None else ""


def test_a_second_dual_run_waits_for_the_first_and_names_it(site: Installation) -> None:
    """A second dual run waits for the first and reports its job and operation; the first one does not wait."""
    for job in ("first", "second"):
        rebuild(site, job)
    assert before(site, "second") == ""
    begin(site, "first")
    assert before(site, "second") == "job first is in a dual run (operation op-first)"
    assert before(site, "first") == ""


def test_a_dual_run_may_begin_after_the_first_has_handed_over_or_finished(site: Installation) -> None:
    """A dual run may begin once the other one has handed over to its new driver or has finished, because only one of
    its drivers runs then.
    """
    for job in ("cut", "aborted", "second"):
        rebuild(site, job)
    begin(site, "cut")
    record(site, "cut", StepDone(operation="op-cut", step="go"))
    begin(site, "aborted")
    assert before(site, "second").startswith("job aborted")
    record(site, "aborted", OperationFinished(operation="op-aborted", outcome=Outcome.ABORTED, sentence=""))
    assert before(site, "second") == ""


def test_a_handoff_does_not_wait_for_a_dual_run_of_a_different_job(site: Installation) -> None:
    """A handoff does not wait for a dual run of a different job, and neither does a dual run that has begun itself."""
    for job in ("first", "second"):
        rebuild(site, job)
        begin(site, job)
    rebuild(site, "handed", way=Transition.HANDOFF)
    assert [before(site, job) for job in ("first", "second", "handed")] == ["", "", ""]


def test_a_dual_run_waiting_for_approval_does_not_block_a_second_one(site: Installation) -> None:
    """A dual run that waits for an approval after its comparison does not block a second one, because the answer may be
    a day away.
    """
    for job in ("first", "second"):
        rebuild(site, job)
    begin(site, "first")
    for step in ("bundle", "standby", "assess", "shadow", "catch-up"):
        record(site, "first", StepDone(operation="op-first", step=step))
    assert before(site, "second").startswith("job first")
    differs = {"q": OutputComparison(comparable=False, why="no moment")}
    record(site, "first", StepDone(operation="op-first", step="compare", compared=differs))
    assert before(site, "second") == ""
