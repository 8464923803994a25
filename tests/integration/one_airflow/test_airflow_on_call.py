"""A job in the hands of whoever is on call, through a real Airflow: stopped, started, watched and brought back."""

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
    """A run of one of the two, over."""
    made = Run(api, {"job": job, "reason": "the warehouse moves"}, dag=dag)
    made.wait()
    return made


def kill(installation: InstalledAirflow) -> str:
    """SIGKILL to every process of the driver that serves; returns which one it was."""
    instance = installation.state.serving_instance
    installation.system.installation.runner.kill(SALES_TOTALS, instance)
    assert wait_until(lambda: installation.life(instance) is Life.DEAD, timeout_s=30)
    return instance


@pytest.fixture(scope="module")
def stopped(served: InstalledAirflow, api: AirflowApi, browser: Browser) -> Run:
    """The run of a stop by its button: the dialog says what became of it, and then the page has the other button."""
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


def test_a_stop_is_told_in_its_dialog(served: InstalledAirflow, stopped: Run) -> None:
    """It has no operation: its dialog says what became of it, and once that is read, the page has the other button."""
    assert stopped.run_id.startswith("page__")
    recorded = served.state.stopped
    assert recorded is not None
    assert recorded.reason == "the warehouse moves"


def test_a_job_is_stopped_and_started_from_airflow(served: InstalledAirflow, stopped: Run, api: AirflowApi) -> None:
    """Nothing runs in between, and what came meanwhile is read once; again, each has nothing to do."""
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
def test_an_unknown_job_is_one_clear_line(served: InstalledAirflow, api: AirflowApi, dag: str) -> None:
    """It fails at once, without another try."""
    failed = run(api, dag, "nope")
    task = dag.removeprefix("streaming_")
    assert failed.state == "failed"
    assert "NotFound: job nope is not known" in failed.log(task)
    assert int(api.tasks(dag, failed.run_id)[task]["try_number"]) == 1


@pytest.mark.parametrize("wrong", [{"job": "../up"}, {"reason": "no"}, {"drain_s": 0}], ids=str)
def test_a_bad_param_is_a_400(served: InstalledAirflow, api: AirflowApi, wrong: dict[str, Any]) -> None:
    """It never becomes a run; the answer names the field."""
    with pytest.raises(InvalidInput, match=f"400 .*{next(iter(wrong))}"):
        api.trigger(STOP, {"job": SALES_TOTALS, "reason": "the warehouse moves", **wrong})


def test_what_was_killed_serves_again_by_the_watch(served: InstalledAirflow, api: AirflowApi) -> None:
    """Its run says whom it started and why; what came meanwhile is read once."""
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
    """A snapshot, a batch after it, and then no driver and no checkpoint."""
    assert wait_until(served.at_rest, timeout_s=60)
    site = served.system.installation
    back_up(site.snapshots, query_target(site, SALES_TOTALS, "totals"))
    served.sell()
    assert wait_until(served.at_rest, timeout_s=60)
    kill(served)
    shutil.rmtree(served.checkpoint)
    return api


def test_the_default_looks_and_touches_nothing(installation: InstalledAirflow, broken: AirflowApi) -> None:
    """The run succeeds with the cause, the evidence and the prices as its report."""
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
    """Before anybody is asked, and before anything is opened."""
    run = Run(broken, {"job": SALES_TOTALS, "action": "restart"}, dag=RECOVER)
    assert run.wait() == "failed"
    assert "restart of sales_totals is not possible" in run.told()[0]
    assert run.operation not in installation.state.operations


def test_a_restore_waits_for_a_person_and_brings_it_back(installation: InstalledAirflow, broken: AirflowApi) -> None:
    """Whose name is in the record; after it the table equals what was sold, and the next look finds nothing wrong."""
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
