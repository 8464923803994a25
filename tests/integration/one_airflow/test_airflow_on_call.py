"""Tests the on-call operations of a job through a real Airflow: stop, start, watch and recovery."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from harness.forms import SALES_TOTALS
from harness.rest import AirflowApi
from harness.waiting import wait_until
from streamkeeper.errors import InvalidInput
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.operations.backups.backup import back_up
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.pages.page_address import page_path
from tests.integration.installation import InstalledAirflow, Run
from tests.integration.walker import WAIT_MS, walking

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]
STOP, START, WATCH, RECOVER = "streaming_stop", "streaming_start", "streaming_watch", "streaming_recover"


def run(api: AirflowApi, dag: str, job: str = SALES_TOTALS) -> Run:
    """Run the stop or the start DAG and wait until it has finished."""
    made = Run(api, {"job": job, "reason": "the warehouse moves"}, dag=dag)
    made.wait()
    return made


def kill(installation: InstalledAirflow) -> str:
    """Kill every process of the running driver with SIGKILL and return the driver's instance."""
    instance = installation.state.serving_instance
    installation.system.installation.runner.kill(SALES_TOTALS, instance)
    assert wait_until(lambda: installation.life(instance) is Life.DEAD, timeout_s=30)
    return instance


@pytest.fixture(scope="module")
def stopped(served: InstalledAirflow, api: AirflowApi, browser: Browser) -> Run:
    """The run of a stop by the page's button, after its dialog has shown the result and the page offers Start."""
    with walking(browser, served) as walker:
        walker.go(page_path(SALES_TOTALS))
        walker.open("Stop")
        walker.fill("Reason", "the warehouse moves")
        walker.send("Stop")
        expect(walker.frame.locator("dialog [role=status]")).to_contain_text("is stopped", timeout=WAIT_MS)
        walker.frame.locator("dialog").get_by_role("button", name="Close").click()
        walker.open("Start")
    (run_id,) = api.runs(STOP)
    found = Run(api, {}, dag=STOP, run_id=run_id)
    found.wait()
    return found


def test_a_stop_from_the_page_records_the_reason_entered_in_the_dialog(served: InstalledAirflow, stopped: Run) -> None:
    """A stop by the page's button is triggered from the page and recorded with the reason that was entered in the
    dialog.
    """
    assert stopped.run_id.startswith("page__")
    recorded = served.state.stopped
    assert recorded is not None
    assert recorded.reason == "the warehouse moves"


def test_a_job_is_stopped_and_started_from_airflow(served: InstalledAirflow, stopped: Run, api: AirflowApi) -> None:
    """A job stopped from Airflow runs no driver until it is started, then reads the sales of the pause exactly once; a
    repeated stop or start is skipped.
    """
    assert (stopped.state, stopped.states()) == ("success", {"stop": "success"}), stopped.log("stop")
    assert served.life() is Life.DEAD
    state = served.state
    assert state.stopped is not None
    assert (state.stopped.reason, state.stopped.operation) == ("the warehouse moves", stopped.operation)
    told = stopped.log("stop")
    assert "driver | " in told
    assert "the instance has ended: drained" in told
    assert served.secret not in told

    again = run(api, STOP)
    assert again.states() == {"stop": "skipped"}
    assert "nothing to do" in again.log("stop")

    served.sell()
    started = run(api, START)
    assert (started.state, started.states()) == ("success", {"start": "success"}), started.log("start")
    assert wait_until(served.caught_up, timeout_s=60)
    assert (served.life(), served.state.wanted) == (Life.ALIVE, True)
    assert served.state.serving_release == state.serving_release
    assert run(api, START).states() == {"start": "skipped"}


@pytest.mark.parametrize("dag", [STOP, START])
def test_stopping_or_starting_an_unknown_job_fails_with_one_clear_line(
    served: InstalledAirflow, api: AirflowApi, dag: str
) -> None:
    """Stopping or starting an unknown job fails on the first try with one clear line."""
    failed = run(api, dag, "nope")
    task = dag.removeprefix("streaming_")
    assert failed.state == "failed"
    assert "NotFound: job nope is not known" in failed.log(task)
    assert int(api.tasks(dag, failed.run_id)[task]["try_number"]) == 1


@pytest.mark.parametrize("wrong", [{"job": "../up"}, {"reason": "no"}, {"drain_s": 0}], ids=str)
def test_a_stop_with_an_invalid_param_is_refused_with_a_400(
    served: InstalledAirflow, api: AirflowApi, wrong: dict[str, Any]
) -> None:
    """A stop with an invalid param is refused with a 400 that names the field, and no run is created."""
    with pytest.raises(InvalidInput, match=f"400 .*{next(iter(wrong))}"):
        api.trigger(STOP, {"job": SALES_TOTALS, "reason": "the warehouse moves", **wrong})


def test_the_watch_restarts_a_killed_driver_and_reports_the_cause(served: InstalledAirflow, api: AirflowApi) -> None:
    """The watch restarts a killed driver and reports the cause and the release; sales that arrived during the outage
    are read once.
    """
    before = kill(served)
    served.sell()
    watched = Run(api, {}, dag=WATCH)
    assert watched.wait() == "success", watched.log("watch")
    report = watched.report("watch")
    assert "driver-dead" in report
    assert f"restarts {served.state.serving_release}" in report

    def serves() -> bool:
        Run(api, {}, dag=WATCH).wait()
        return served.state.serving_instance != before and served.life() is Life.ALIVE

    assert wait_until(serves, timeout_s=240)
    assert wait_until(served.caught_up, timeout_s=60)


@pytest.fixture(scope="module")
def broken(served: InstalledAirflow, api: AirflowApi) -> AirflowApi:
    """The API after a snapshot and one more batch, with the driver killed and the checkpoint deleted."""
    assert wait_until(served.at_rest, timeout_s=60)
    site = served.system.installation
    back_up(site.snapshots, query_target(site, SALES_TOTALS, "totals"))
    served.sell()
    assert wait_until(served.at_rest, timeout_s=60)
    kill(served)
    shutil.rmtree(served.checkpoint)
    return api


def test_a_recovery_without_an_action_reports_causes_and_records_nothing(
    installation: InstalledAirflow, broken: AirflowApi
) -> None:
    """A recovery without an action reports the cause and the possible actions, and records nothing."""
    before = installation.state.number
    run = Run(broken, {"job": SALES_TOTALS}, dag=RECOVER)
    assert run.wait() == "success", run.told()
    report = broken.xcom(RECOVER, run.run_id, "diagnose", "report")
    assert "checkpoint-lost" in report
    assert "**restore** (a person has to accept it)" in report
    assert installation.state.number == before


def test_a_restart_of_a_lost_checkpoint_is_refused_with_the_reason(
    installation: InstalledAirflow, broken: AirflowApi
) -> None:
    """A restart of a job whose checkpoint is lost is refused with the reason before approval is requested or an
    operation is opened.
    """
    run = Run(broken, {"job": SALES_TOTALS, "action": "restart"}, dag=RECOVER)
    assert run.wait() == "failed"
    assert "restart of sales_totals is not possible" in run.told()[0]
    assert run.operation not in installation.state.operations


def test_a_restore_waits_for_approval_and_repairs_the_job(installation: InstalledAirflow, broken: AirflowApi) -> None:
    """A restore waits for approval, records who accepted it and repairs the job: afterwards the table equals the sales,
    and the next diagnosis finds nothing wrong.
    """
    before = installation.state.current
    run = Run(broken, {"job": SALES_TOTALS, "action": "restore"}, dag=RECOVER)
    assert wait_until(lambda: run.states()["accept"] in ("deferred", "awaiting_input"), timeout_s=300, poll_s=1), (
        run.told()
    )
    assert "LOSES possibly some of it" in broken.question(RECOVER, run.run_id, "accept")
    run.answer("accept", "Approve", reason="nothing deletes sales files")
    assert run.wait() == "success", run.told()
    recover = installation.state.operations[run.operation].request.recovery
    assert recover is not None
    assert recover.accepted_by not in ("", "airflow")
    assert installation.state.current != before
    installation.sell()
    assert wait_until(installation.caught_up, timeout_s=60)
    again = Run(broken, {"job": SALES_TOTALS}, dag=RECOVER)
    assert again.wait() == "success", again.told()
    assert "nothing-wrong" in broken.xcom(RECOVER, again.run_id, "diagnose", "report")
