"""Tests the DAG that records the termination of a lost driver on the installed job: the same conditions as the command,
and the copy of the checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.operations.registered_job import JOB, Registered
from tests.orchestration.installed import install
from tests.orchestration.running import Instance, context_of, task_fails

pytestmark = pytest.mark.airflow
DRIVER = "op-candidate"


class Task(Instance):
    """A task instance of a run whose earlier tasks pushed nothing."""

    def xcom_pull(self, **_: Any) -> None:
        """Return nothing."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """A job whose driver ran on a different machine."""
    installed = install(tmp_path, monkeypatch)
    installed.write_process("node-7")
    return installed


def context(**form: Any) -> Any:
    made = context_of(Task())
    asked = {"job": JOB, "instance": DRIVER, "reason": "node 7 was scrapped", **form}
    made["params"], made["dag"].params, made["dag_run"].conf = asked, asked, asked
    return made


def state(**form: Any) -> str:
    from streamkeeper.orchestration.statements import StateDeadOperator

    return str(StateDeadOperator(task_id="state").execute(context(**form)))


def proof_of(job: Registered) -> str:
    return job.installation.journal(JOB, "test").state().instances[DRIVER].proof


def test_a_statement_is_recorded_only_with_accept(job: Registered) -> None:
    """Without ``accept`` the run fails with the risks of the statement and records nothing; with it, the statement is
    recorded with its author and reason.
    """
    with task_fails(
        "this run recorded nothing about op-candidate, because the field accept is not set. The risks of"
        " stating that the driver has terminated: .*node-7.*accept"
    ):
        state(accept=False)
    assert proof_of(job) == ""
    assert state(accept=True).startswith("recorded: ")
    assert proof_of(job) == "stated by ada, not proven: node 7 was scrapped"


def test_a_task_that_was_killed_after_the_record_succeeds_when_it_is_cleared(job: Registered) -> None:
    """Rerunning the task with the same statement succeeds. Negative control: a different statement is refused."""
    assert state(accept=True) == state(accept=True)
    with task_fails("is already recorded: stated by ada"):
        state(accept=True, reason="another reason")


def test_a_statement_about_a_provable_termination_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement about a driver whose termination can be proven on this machine is refused and not recorded."""
    job = install(tmp_path, monkeypatch)
    with task_fails("can be proven here"):
        state(accept=True)
    assert proof_of(job) == ""


def test_a_run_without_a_user_cannot_record_a_statement(job: Registered) -> None:
    """A run that no user triggered, such as a scheduled one, cannot record a statement."""
    from streamkeeper.orchestration.statements import StateDeadOperator

    nobody = context(accept=True)
    nobody["dag_run"].triggering_user_name = None
    with task_fails("a person must confirm that the driver has ended"):
        StateDeadOperator(task_id="state").execute(nobody)
    assert proof_of(job) == ""


def test_the_checkpoint_is_copied_only_after_the_statement(job: Registered) -> None:
    """The copy of the checkpoint fails before the statement is recorded and creates a snapshot afterwards."""
    from streamkeeper.orchestration.statements import CopyForkOperator

    with task_fails("no checkpoint of sales belongs to a driver"):
        CopyForkOperator(task_id="copy").execute(context(accept=True))
    state(accept=True)
    told = CopyForkOperator(task_id="copy").execute(context(accept=True))
    assert "action restore" in told
    assert [snapshot.batch for snapshot in job.catalogue.snapshots()] == [7]
