"""One deploy that everything happens to: all of Airflow dies, then the process of a task, and others come between."""

from __future__ import annotations

import pytest

from harness.forms import DAG
from harness.waiting import wait_until
from streamkeeper.model.records.journal_records import Outcome
from tests.integration.installation import InstalledAirflow, Interrupted

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]


def test_a_deploy_outlives_a_killed_airflow(served: InstalledAirflow, interrupted: Interrupted) -> None:
    """SIGKILL to everything of Airflow while the deploy waits for its standby; started again, it carries the run on.

    The drivers are nobody's children, and what was decided is in the journal: nothing is lost or doubled.
    """
    run, _, _ = interrupted
    assert run.state == "success", run.told()
    operation = served.state.operations[run.operation]
    assert operation.outcome is Outcome.SUCCEEDED
    assert served.state.serving_release == operation.release != "r0001"
    served.sell()
    assert wait_until(served.at_rest, timeout_s=60)
    assert served.compare().clean


def test_a_killed_task_continues_and_a_second_trigger_is_refused(
    served: InstalledAirflow, interrupted: Interrupted
) -> None:
    """The handover's process is killed between the old driver's end and the new one's go: its retry carries it on.

    Meanwhile another deploy of the job is refused, in one line that names the open operation and both ways out.
    """
    run, _, another = interrupted
    assert another.state == "failed"
    assert len(another.told()) == 1
    for words in (run.operation, "on_open=continue", "on_open=abort"):
        assert words in another.told()[0]
    assert run.state == "success", run.told()
    assert served.disarmed.exists(), "the task was not killed"
    assert int(run.api.tasks(DAG, run.run_id)["takeover.handover"]["try_number"]) == 2
    (told,) = run.api.asset_events(DAG, run.run_id)
    assert told["handover_s"] > 0


def test_a_run_id_that_is_used_again_is_refused_as_another_request(
    served: InstalledAirflow, interrupted: Interrupted
) -> None:
    """The run was deleted in Airflow, the journal has its operation: its old outcome is no answer."""
    run, form, _ = interrupted
    run.api.delete_run(DAG, run.run_id)
    assert run.api.trigger(DAG, {**form, "strategy": "rebuild"}, run_id=run.run_id) == run.run_id
    assert run.wait() == "failed"
    (told,) = run.told()
    assert "another request, which differs in strategy. That operation has ended: " in told
    assert served.state.operations[run.operation].outcome is Outcome.SUCCEEDED
