"""Tests of one deploy during which all of Airflow is killed, then the process of a task, and other requests for the job
arrive.
"""

from __future__ import annotations

import pytest

from harness.forms import DAG
from harness.waiting import wait_until
from streamkeeper.model.records.journal_records import Outcome
from tests.integration.installation import InstalledAirflow, Interrupted

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]


def test_a_deploy_outlives_a_killed_airflow(served: InstalledAirflow, interrupted: Interrupted) -> None:
    """A deploy completes although every Airflow process gets SIGKILL while the deploy waits for its standby: the
    restarted Airflow continues the run.

    The drivers are not Airflow's child processes and the decisions are in the journal, so no sale is lost or doubled.
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
    """The handover task is killed after the old driver has stopped and before the new one is started; its retry
    completes the handover.

    A second deploy of the job during that time is refused in one line that names the open operation and both options,
    ``on_open=continue`` and ``on_open=abort``.
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
    """A run deleted in Airflow and triggered under the same run id with a different request is refused, because the
    journal still has the first operation; that operation's outcome is unchanged.
    """
    run, form, _ = interrupted
    run.api.delete_run(DAG, run.run_id)
    assert run.api.trigger(DAG, {**form, "strategy": "rebuild"}, run_id=run.run_id) == run.run_id
    assert run.wait() == "failed"
    (told,) = run.told()
    assert "another request, which differs in strategy. That operation has ended: " in told
    assert served.state.operations[run.operation].outcome is Outcome.SUCCEEDED
