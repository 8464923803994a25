"""An operation's assessment, and the release that it was compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.model.records.job_state import UNKNOWN_RELEASE, JobState, fold
from streamkeeper.model.records.journal_records import Entry, OperationFinished, OperationStarted, Outcome, StepDone
from streamkeeper.model.records.rebuilt import JobRebuilt
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.findings import last_assessed, read_findings
from streamkeeper.operations.jobs.operation_record import served_before
from tests.operations.registered_job import JOB
from tests.pages.whole_job import OPERATION, WholeJob


@pytest.fixture
def job(tmp_path: Path) -> WholeJob:
    return WholeJob(tmp_path)


def operate(job: WholeJob, name: str, release: str, outcome: Outcome) -> None:
    job.record(OperationStarted(operation=name, request=DeployRequest(job=JOB), steps=()))
    job.record(StepDone(operation=name, step="bundle", result={"release": release}))
    job.record(OperationFinished(operation=name, outcome=outcome, sentence=""))


def before(state: JobState, operation: str) -> str:
    return served_before(state, state.operations[operation])


def test_the_release_before_an_operation_is_that_of_the_last_success(job: WholeJob) -> None:
    """The release before an operation is the one of the last operation that succeeded, and a refused or fallen-back
    operation changes nothing. Negative control: a successful operation changes it.
    """
    operate(job, "refused", "r0003", Outcome.REFUSED)
    operate(job, "fell", "r0003", Outcome.FELL_BACK)
    operate(job, "good", "r0004", Outcome.SUCCEEDED)
    operate(job, "next", "r0005", Outcome.SUCCEEDED)
    assert [before(job.state, each) for each in (OPERATION, "refused", "fell", "good", "next")] == [
        "r0001", "r0002", "r0002", "r0002", "r0004",
    ]  # fmt: skip


def test_before_the_first_operation_the_earlier_release_is_none_or_unknown() -> None:
    """Before a job's first operation no release had run; after a rebuild of its journal the release before is
    unknown.
    """
    request = OperationStarted(operation="op", request=DeployRequest(job=JOB), steps=())
    first = fold(JobState(job=JOB), Entry(number=1, at="", by="", record=request))
    assert before(first, "op") == ""
    rebuilt = JobRebuilt(
        requested_by="ada", reason="", at="2026-11-24T10:00:00", proof="", epoch=1, newest_release=1, queries={}
    )
    again = fold(JobState(job=JOB), Entry(number=1, at="", by="", record=rebuilt))
    assert before(fold(again, Entry(number=2, at="", by="", record=request)), "op") == UNKNOWN_RELEASE


def test_the_newest_report_is_shown_with_the_difference_from_the_release_before(job: WholeJob) -> None:
    """The newest report is shown with the difference from the release before, even if a later operation was not
    assessed.
    """
    operate(job, "later", "r0002", Outcome.REFUSED)
    operation = last_assessed(job.state)
    assert operation is not None
    found = read_findings(job.installation, job.state, operation)
    assert (found.operation, found.before, found.release, found.undiffered) == (OPERATION, "r0001", "r0002", "")
    assert "file sales.py" in [each.title for each in found.differences]


def test_an_unrecorded_release_before_is_named_in_the_report(job: WholeJob) -> None:
    """If the release before is not recorded, the report names it, states that the difference is unknown, and still
    shows the findings.
    """
    state = job.state
    operation = last_assessed(state)
    assert operation is not None
    del state.releases["r0001"]
    found = read_findings(job.installation, state, operation)
    assert found.undiffered == "the difference is unknown: r0001 is not recorded"
    assert found.assessment.queries
