"""Tests which buttons a user is offered, for which job, and when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import About, DesiredChanged, JobForgotten
from streamkeeper.operations.jobs.carriers import Carrier, note_asking, note_carrier
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.pages.buttons import Buttons, read_buttons, restore_path
from streamkeeper.pages.viewer import Right, Viewer
from tests.operations.registered_job import JOB, Registered
from tests.orchestration.asking import ask, ask_about_output
from tests.pages.asking import everything, make_site, reads

ALL = ["Deploy", "Roll back", "Recover", "Stop"]
SERVED = JobState(job="sales", number=9, serving_release="r0002", served={"r0001": {}, "r0002": {}})
STOPPED = DesiredChanged(serve=False, requested_by="ada", reason="")
FORGOTTEN = JobForgotten(requested_by="ada", reason="")


@pytest.fixture
def site(tmp_path: Path) -> Installation:
    return make_site(tmp_path)


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    return Registered(tmp_path)


def carried(
    job: Registered, dag: str = "streaming_deploy", about: About = About.STATE, task: str = "backup.approve"
) -> None:
    """Record a DAG run that carries the operation and the task of it that requests the approval."""
    run, store = "manual__1+00:00", job.installation.store
    note_carrier(store, JOB, "op2", Carrier(dag=dag, run=run))
    note_asking(store, JOB, "op2", about, dag=dag, run=run, task=task)


def of(job: Registered, may: Callable[[Right, str], bool] = everything, name: str = "ada") -> Buttons:
    return read_buttons(job.installation, job.installation.journal(JOB, "test").state(), Viewer(name=name, may=may))


def labels(site: Installation, state: JobState, may: Callable[[Right, str], bool], **more: Any) -> list[str]:
    return [each.label for each in read_buttons(site, state, Viewer(name="ada", may=may), **more).row]


@pytest.mark.parametrize(
    ("state", "runs", "offered"),
    [
        (SERVED, True, ALL),
        (SERVED, False, ["Deploy", "Roll back", "Recover", "Start", "Stop"]),
        (replace(SERVED, stopped=STOPPED), True, ["Deploy", "Roll back", "Recover", "Start"]),
        (replace(SERVED, served={"r0002": {}}), True, ["Deploy", "Recover", "Stop"]),
        (replace(SERVED, stopped=STOPPED, forgotten=FORGOTTEN), True, ["Deploy"]),
        (JobState(job="sales", number=1), True, ["Deploy"]),
    ],
    ids=["serves", "its driver ended", "stopped", "first release", "forgotten", "never served"],
)
def test_a_job_offers_only_buttons_that_are_valid_in_its_state(
    site: Installation, state: JobState, runs: bool, offered: list[str]
) -> None:
    """A job offers only the buttons of operations that would not be refused at once in its state."""
    assert labels(site, state, everything, runs=runs) == offered


@pytest.mark.parametrize(
    ("rules", "offered"),
    [
        ({"driver-lost"}, "State termination"),
        ({"owner-unproven"}, "Restore the copy"),
        ({"driver-unknown"}, ""),
        (set(), ""),
    ],
)
def test_the_next_step_for_a_lost_node_is_a_button(site: Installation, rules: set[str], offered: str) -> None:
    """The page offers stating the termination once the watch reports the driver lost, and restoring the copy once the
    owner is unproven; other findings and viewers get no such button.
    """
    expected = [each for each in ("Deploy", "Roll back", offered, "Recover", "Stop") if each]
    assert labels(site, SERVED, everything, rules=rules) == expected
    assert labels(site, SERVED, reads, rules=rules) == []


def test_stop_start_and_rollback_are_not_offered_during_an_operation(job: Registered) -> None:
    """While an operation is open, stop, start and rollback are not offered, but deploy and recover are."""
    ask(job, "op2", backup=False)
    assert [each.label for each in of(job).row] == ["Deploy", "Recover"]


@pytest.mark.parametrize(
    ("label", "dag"),
    [
        ("Deploy", "streaming_deploy"),
        ("Roll back", "streaming_rollback"),
        ("Recover", "streaming_recover"),
        ("Stop", "streaming_stop"),
    ],
)
def test_each_button_is_for_those_who_may_run_its_dag(site: Installation, label: str, dag: str) -> None:
    """Each button requires the right to run its own DAG and no other, and a viewer gets none."""
    assert labels(site, SERVED, lambda right, asked: (right, asked) == ("run", dag)) == [label]
    assert set(labels(site, SERVED, lambda right, asked: asked != dag)) == set(ALL) - {label}
    assert labels(site, SERVED, reads) == []


def test_a_snapshot_is_restored_by_those_who_may_recover(site: Installation) -> None:
    """Restoring a snapshot is offered only to users with the right to recover, and only for a job that has been
    deployed; the link escapes the snapshot's name.
    """
    for may, allowed in ((everything, True), (reads, False)):
        assert read_buttons(site, SERVED, Viewer(name="ada", may=may)).may_restore is allowed
    assert not read_buttons(site, JobState(job="sales", number=1), Viewer(name="ada", may=everything)).may_restore
    assert restore_path("sales", "totals", "s0007&x") == (
        "jobs/sales/dialogs/recover?action=restore&query=totals&snapshot=s0007%26x"
    )


@pytest.mark.parametrize("task", ["backup.approve", "deploy_sales.our_question"])
def test_the_approval_button_links_to_the_requesting_task(job: Registered, task: str) -> None:
    """The approval button links to the requesting task of the DAG run that carries the operation, whatever the task's
    id is.
    """
    ask(job, "op2")
    carried(job, task=task)
    found = of(job)
    assert found.question is not None
    assert found.question.task_path == f"dags/streaming_deploy/dagRuns/manual__1%2B00%3A00/taskInstances/{task}"
    assert (found.question.objection, found.row[0].label, found.row[0].main) == ("", "Approve or decline", True)


def test_the_approval_of_a_rebuilt_output_links_to_the_review_task(job: Registered) -> None:
    """An approval of a rebuilt output links to the review task of the dual run."""
    ask_about_output(job, "op2")
    carried(job, about=About.OUTPUT, task="dual_run.review")
    found = of(job).question
    assert found is not None
    assert found.task_path.endswith("/dual_run.review")
    assert "rebuilt output" in found.subject


def test_a_user_who_may_not_approve_gets_a_reason_instead_of_a_button(job: Registered) -> None:
    """A user without the right in Airflow, outside the approvers, or excluded by four eyes gets a reason instead of the
    button, as does an operation run by the command line.

    Negative control: a permitted user gets the button.
    """
    ask(job, "op2", requested_by="ada")
    assert "command line" in told(job)
    carried(job)
    assert told(job) == ""
    assert "ada may not answer questions of streaming_deploy" in told(job, may=reads)
    job.set(approvers=("bob",))
    assert "ada is not among the approvers" in told(job)
    assert told(job, name="bob") == ""
    job.set(approvers=(), four_eyes=True)
    assert "another person must answer" in told(job)


def test_no_approval_button_is_offered_before_the_task_has_requested_it(job: Registered) -> None:
    """Before the current run's task has requested the approval, the page offers no button; a request by a replaced run,
    or about a different subject, changes nothing.
    """
    ask(job, "op2")
    note_carrier(job.installation.store, JOB, "op2", Carrier(dag="streaming_deploy", run="manual__2"))
    assert told(job).startswith("which task of streaming_deploy asks is not known yet. Answer from the command line")
    for about, run in ((About.STATE, "manual__1"), (About.OUTPUT, "manual__2")):
        note_asking(job.installation.store, JOB, "op2", about, dag="streaming_deploy", run=run, task="backup.approve")
        assert told(job).startswith("which task of streaming_deploy asks is not known yet")


def told(job: Registered, may: Callable[[Right, str], bool] = everything, name: str = "ada") -> str:
    """Return the objection that stands in place of the approval button."""
    found = of(job, may, name)
    assert found.question is not None
    assert bool(found.question.objection) is (found.row[:1] == () or found.row[0].label != "Approve or decline")
    return found.question.objection


def test_no_approval_is_requested_before_the_state_is_backed_up(job: Registered) -> None:
    """Before the state is backed up, the page shows no approval request."""
    ask(job, "op2", backup=False)
    carried(job)
    assert of(job).question is None
