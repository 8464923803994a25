"""Deploys through a real Airflow, with real drivers: what the DAG does when things go right, wrong, and down."""

from __future__ import annotations

import http.client
import ipaddress
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pendulum
import psutil
import pytest
from playwright.sync_api import Browser, expect

from harness.forms import DAG, SALES_TOTALS
from harness.ledger import compare_totals, expected_totals
from harness.outputs import read_totals
from harness.processes import StartedProcesses, session_of
from harness.producer import SALES
from harness.rest import AirflowApi
from harness.waiting import wait_until
from streamkeeper.errors import InvalidInput
from streamkeeper.model.journal import InstancePlanned, Outcome
from streamkeeper.model.liveness import Life
from streamkeeper.runners.process_tree import find_tree, mark
from tests.browser import WAIT_MS
from tests.integration.installation import InstalledAirflow, Run, deploy_first
from tests.private_home import open_to_others

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def first(installation: InstalledAirflow, api: AirflowApi) -> Run:
    """Release 1, deployed and serving."""
    return deploy_first(installation, api, probation_batches=1)


def test_a_dry_run_of_a_job_that_was_never_deployed_leaves_nothing(
    installation: InstalledAirflow, api: AirflowApi
) -> None:
    """Its verdict is with the run; neither the store nor the home knows the job, once the run is over."""
    run = Run(api, {**installation.form(), "dry_run": True})
    assert run.wait() == "success", run.told()
    assert api.xcom(DAG, run.run_id, "assess", "report").startswith("## r0001 is the first release")
    assert installation.state.number == 0
    places = installation.places.home, installation.places.checkpoints
    assert [each for place in places for each in place.rglob(f"*{SALES_TOTALS}*")] == []
    assert [*(installation.places.home / "scratch").glob("*")] == []


def test_a_first_release_is_deployed_and_serves(installation: InstalledAirflow, first: Run) -> None:
    """From the form to rows in the table; the report of the assessment is with the run."""
    assert wait_until(installation.caught_up, timeout_s=30)
    assert installation.state.serving_release == "r0001"
    assert first.states()["fall_back"] == "skipped"
    assert first.api.xcom(DAG, first.run_id, "assess", "report").startswith("## r0001 is the first release")


def test_the_candidate_starts_while_airflow_schedules_who_waits_for_it(
    installation: InstalledAirflow, first: Run
) -> None:
    """It is on record before the task that waits for its standby begins."""
    entries = installation.system.site.journal(SALES_TOTALS, "test").entries()
    planned = next(entry.at for entry in entries if isinstance(entry.record, InstancePlanned))
    waits = first.api.tasks(DAG, first.run_id)["standby"]["start_date"]
    assert pendulum.parse(planned) < pendulum.parse(waits)


def test_airflow_shows_what_became_of_a_deploy(installation: InstalledAirflow, first: Run) -> None:
    """Its note says what it is about, buttons lead to report and outcome, and the asset's event carries it all."""
    api, run_id = first.api, first.run_id
    assert api.note(DAG, run_id) == f"{SALES_TOTALS}: integration test"
    links = api.links(DAG, run_id, "takeover.promote")
    assert set(links) == {"Page", "Report", "Outcome"}
    operation = f"/streamkeeper/jobs/{SALES_TOTALS}/operations/{first.operation}"
    assert links["Page"] == f"{api.url}/plugin/streamkeeper{operation}"
    assert links["Report"].startswith(f"{api.url}/dags/{DAG}/runs/")
    assert links["Report"].endswith("/tasks/assess/xcom")
    (told,) = api.asset_events(DAG, run_id)
    assert (told["job"], told["release"], told["outcome"], told["verdict"]) == (
        SALES_TOTALS,
        "r0001",
        "succeeded",
        "RESUME",
    )
    assert told["queries"] == {"totals": "starts in v0001"}
    assert told["handover_s"] is None
    assert api.xcom(DAG, run_id, "finish", "report").startswith("## succeeded\n")


def test_the_page_stands_in_airflows_own_frame(first: Run, browser: Browser) -> None:
    """A task's button leads to its operation there; the page has Airflow's theme, and each its place in the other."""
    api, address = first.api, first.api.links(DAG, first.run_id, "takeover.promote")["Page"]
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.goto(address)
        inside = page.frame_locator("iframe")
        expect(inside.locator("h1")).to_contain_text(SALES_TOTALS, timeout=WAIT_MS)
        for theme in ("dark", "light"):
            page.evaluate(f"localStorage.setItem('theme', '{theme}')")
            page.reload()
            expect(inside.locator("html")).to_have_attribute("data-theme", theme, timeout=WAIT_MS)

        inside.get_by_text(f"run {first.run_id} of {DAG}").click()
        page.wait_for_url(f"{api.url}/dags/{DAG}/runs/**")
        expect(page.locator("iframe")).to_have_count(0)
        page.go_back()
        expect(inside.locator("h1")).to_contain_text(SALES_TOTALS, timeout=WAIT_MS)

        page.goto(f"{api.url}/plugin/streamkeeper")
        inside.locator("#search").fill("nothing is called like this")
        page.wait_for_url("**/plugin/streamkeeper/streamkeeper/?search=nothing+is+called+like+this")
        page.reload()
        expect(inside.locator("#search")).to_have_value("nothing is called like this", timeout=WAIT_MS)

        page.goto(f"{api.url}/dags/{DAG}/runs/{quote(first.run_id, safe='')}/plugin/streamkeeper-operation")
        expect(inside.locator("h1")).to_contain_text(SALES_TOTALS, timeout=WAIT_MS)


def test_a_connections_secret_stays_a_reference(installation: InstalledAirflow, first: Run) -> None:
    """The job writes to the database that the connection names, and no record, status or log holds its URL."""
    assert wait_until(installation.caught_up, timeout_s=30)
    leaks = [file for file, data in installation.everything() if installation.secret.encode() in data]
    assert leaks == []


def test_nothing_listens_beyond_the_loopback(installation: InstalledAirflow, first: Run) -> None:
    """Airflow's every process, and the driver's: no log server, no port of Spark's."""
    serving = installation.state.serving_instance
    tree = [psutil.Process(each.pid) for each in find_tree(mark(SALES_TOTALS, serving))]
    assert len(tree) >= 3
    running = [
        each for started in StartedProcesses(installation.places.processes).read() for each in session_of(started)
    ]
    found = [
        (each.pid, connection.laddr.ip, connection.laddr.port)
        for each in (*running, *tree)
        for connection in each.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert int(first.api.url.rpartition(":")[2]) in {port for _, _, port in found}
    assert [each for each in found if not is_loopback(each[1])] == []


def is_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


@pytest.mark.parametrize(("host", "status"), [("localhost", 200), ("evil.example", 400), ("10.0.0.7:80", 400)])
def test_a_foreign_host_header_is_refused(api: AirflowApi, host: str, status: int) -> None:
    """Whoever opens it on the loopback is an admin: a page of the web that calls it by another name is nobody."""
    asked = http.client.HTTPConnection("127.0.0.1", int(api.url.rpartition(":")[2]), timeout=30)
    with closing(asked):
        asked.request("GET", "/api/v2/monitor/health", headers={"Host": host})
        assert asked.getresponse().status == status


def test_nobody_else_may_read_a_file_of_it(installation: InstalledAirflow, first: Run) -> None:
    """Airflow's home and ours, over a deploy; inside of its private folder Spark's checkpoints have their own modes."""
    assert first.state == "success"
    assert open_to_others(installation.places.airflow) == []
    assert open_to_others(installation.places.home, except_below=("checkpoints", "scratch/*")) == []


@pytest.mark.parametrize(
    "wrong", [{"reason": "no"}, {"strategy": "hope"}, {"release": "../r1"}, {"conf": {"spark.x": 1}}], ids=str
)
def test_a_bad_param_is_a_400(installation: InstalledAirflow, api: AirflowApi, wrong: dict[str, Any]) -> None:
    """It never becomes a run; the answer names the field."""
    with pytest.raises(InvalidInput, match=f"400 .*{next(iter(wrong))}"):
        api.trigger(DAG, {**installation.form(), **wrong})


def test_a_misspelt_field_is_refused_by_name_before_anything_is_done(
    installation: InstalledAirflow, first: Run
) -> None:
    """Airflow takes any key: a misspelt ``dry_run`` would deploy for real. Nothing is recorded of such a run."""
    before = installation.state.number
    run = Run(first.api, {**installation.form(), "dryrun": True, "parms": {}})
    assert run.wait() == "failed"
    (told,) = run.told()
    assert "field 'dryrun', 'parms' are not known (perhaps write dry_run for dryrun, params for parms)" in told
    assert installation.state.number == before


def test_a_run_id_that_is_used_again_is_refused_as_another_request(installation: InstalledAirflow, first: Run) -> None:
    """The run was deleted in Airflow, the journal has its operation: its old outcome is no answer."""
    dry = Run(first.api, {**installation.form(), "dry_run": True})
    assert dry.wait() == "success", dry.told()
    first.api.delete_run(DAG, dry.run_id)
    form = {**installation.form(), "strategy": "rebuild"}
    assert first.api.trigger(DAG, form, run_id=dry.run_id) == dry.run_id
    assert dry.wait() == "failed"
    (told,) = dry.told()
    assert "another request, which differs in dry_run, strategy. That operation has ended: dry run" in told


def test_a_job_that_does_not_import_leaves_the_old_one_serving(installation: InstalledAirflow, first: Run) -> None:
    """One clear line names the file and what is missing; the serving driver is the same as before, and alive."""
    before = installation.state
    file = installation.places.jobs / f"{SALES_TOTALS}.py"
    good = file.read_text()
    file.write_text("import a_module_that_is_not_there\n" + good)
    try:
        run = Run(first.api, installation.form())
        assert run.wait() == "failed"
    finally:
        file.write_text(good)
    told = run.told()
    assert len(told) == 1
    assert run.operation not in installation.state.operations
    assert "sales_totals.py" in told[0]
    assert "a_module_that_is_not_there" in told[0]
    after = installation.state
    assert (after.serving_instance, after.appointed) == (before.serving_instance, before.appointed)
    assert installation.system.site.runner.observe(SALES_TOTALS, after.serving_instance).life is Life.ALIVE
    assert run.states()["fall_back"] == "skipped"
    (event,) = run.api.asset_events(DAG, run.run_id)
    assert (event["job"], event["outcome"]) == (SALES_TOTALS, "not-opened")
    assert told[0].endswith(event["sentence"])
    for task in ("bundle", "finish"):
        assert "Task exited" in run.log(task)
        assert "Task failed with exception" not in run.log(task), "Airflow shows a traceback"


def test_a_killed_task_continues_and_a_second_trigger_is_refused(installation: InstalledAirflow, first: Run) -> None:
    """The handover's process is killed between the old driver's end and the new one's go: its retry carries it on.

    Meanwhile another deploy of the job is refused, in one line that names the open operation and both ways out.
    """
    installation.sell()
    installation.disarmed.unlink()
    form = installation.form()
    form["params"]["files_per_trigger"] = 50
    run = Run(first.api, form)
    assert wait_until(lambda: installation.state.open_operation is not None, timeout_s=60)
    second = Run(first.api, installation.form())
    assert second.wait() == "failed"
    assert len(second.told()) == 1
    for words in (run.operation, "on_open=continue", "on_open=abort"):
        assert words in second.told()[0]
    assert run.wait() == "success", run.told()
    assert installation.disarmed.exists(), "the task was not killed"
    assert int(run.api.tasks(DAG, run.run_id)["takeover.handover"]["try_number"]) == 2
    state = installation.state
    assert state.operations[run.operation].outcome is Outcome.SUCCEEDED
    assert state.serving_release == state.operations[run.operation].release != "r0001"
    (told,) = run.api.asset_events(DAG, run.run_id)
    assert told["handover_s"] > 0
    installation.sell()
    wait_until(installation.caught_up, timeout_s=30)
    installation.system.drain((SALES_TOTALS,))
    sales, totals = installation.places.input / SALES, read_totals(installation.places.warehouse)
    assert compare_totals(SALES_TOTALS, expected_totals(sales), totals).clean
