"""Tests deploys through a real Airflow with real drivers, both successful and failed ones."""

from __future__ import annotations

import http.client
import ipaddress
from contextlib import closing
from typing import Any

import pendulum
import psutil
import pytest

from harness.forms import DAG, EVENT_COPY, SALES_TOTALS, deploy_conf
from harness.processes import StartedProcesses, session_of
from harness.rest import AirflowApi
from harness.waiting import wait_until
from streamkeeper.errors import InvalidInput
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_records import InstancePlanned
from streamkeeper.runners.process_tree import find_tree, mark
from tests.integration.installation import InstalledAirflow, Run
from tests.private_home import open_to_others

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]


def test_a_dry_run_of_a_new_job_reports_its_verdict_only(installation: InstalledAirflow, api: AirflowApi) -> None:
    """A dry run of a job that was never deployed attaches its verdict to the run and leaves no trace in the journal,
    the home or the checkpoints.
    """
    scratch = installation.places.home / "scratch"
    before = {*scratch.glob("*")}
    form = deploy_conf(installation.places, EVENT_COPY, files_per_trigger=100, reason="integration test", dry_run=True)
    run = Run(api, form)
    assert run.wait() == "success", run.told()
    assert api.xcom(DAG, run.run_id, "assess", "report").startswith("## r0001 is the first release")
    assert installation.system.installation.journal(EVENT_COPY, "test").state().number == 0
    places = installation.places.home, installation.places.checkpoints
    assert [each for place in places for each in place.rglob(f"*{EVENT_COPY}*")] == []
    assert {*scratch.glob("*")} == before


def test_a_first_release_is_deployed_and_writes_rows_to_the_table(installation: InstalledAirflow, first: Run) -> None:
    """A first release is deployed from the form to rows in the table, and the assessment's report is attached to the
    run.
    """
    assert wait_until(installation.caught_up, timeout_s=30)
    assert installation.state.serving_release == "r0001"
    assert first.states()["fall_back"] == "skipped"
    assert first.api.xcom(DAG, first.run_id, "assess", "report").startswith("## r0001 is the first release")


def test_the_candidate_driver_starts_before_the_task_that_waits_for_its_standby(
    installation: InstalledAirflow, first: Run
) -> None:
    """The candidate driver is recorded in the journal before the task that waits for its standby starts."""
    entries = installation.system.installation.journal(SALES_TOTALS, "test").entries()
    planned = next(entry.at for entry in entries if isinstance(entry.record, InstancePlanned))
    waits = first.api.tasks(DAG, first.run_id)["standby"]["start_date"]
    assert pendulum.parse(planned) < pendulum.parse(waits)


def test_airflow_shows_the_job_reason_report_and_outcome_of_a_deploy(
    installation: InstalledAirflow, first: Run
) -> None:
    """Airflow shows a deploy's job and reason in the run's note, links to its page, report and outcome, and emits an
    asset event with the result.
    """
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


def test_a_connections_secret_stays_a_reference(installation: InstalledAirflow, first: Run) -> None:
    """The job writes to the database that the connection names, and no record, status or log contains the connection's
    URL.
    """
    assert wait_until(installation.caught_up, timeout_s=30)
    leaks = [file for file, data in installation.everything() if installation.secret.encode() in data]
    assert leaks == []


def test_nothing_listens_beyond_the_loopback(installation: InstalledAirflow, first: Run) -> None:
    """No process of Airflow or of the driver listens on an address other than the loopback."""
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
    """A request with a foreign Host header gets a 400, because every client on the loopback is an admin and a web page
    could reach Airflow under a different name.
    """
    asked = http.client.HTTPConnection("127.0.0.1", int(api.url.rpartition(":")[2]), timeout=30)
    with closing(asked):
        asked.request("GET", "/api/v2/monitor/health", headers={"Host": host})
        assert asked.getresponse().status == status


def test_deployed_files_are_not_accessible_to_other_users(installation: InstalledAirflow, first: Run) -> None:
    """After a deploy, no file in Airflow's home or the installation's home is accessible to other users, except for
    checkpoints and scratch files inside the private folder.
    """
    assert first.state == "success"
    assert open_to_others(installation.places.airflow) == []
    assert open_to_others(installation.places.home, except_below=("checkpoints", "scratch/*")) == []


@pytest.mark.parametrize(
    "wrong", [{"reason": "no"}, {"strategy": "hope"}, {"release": "../r1"}, {"conf": {"spark.x": 1}}], ids=str
)
def test_a_deploy_with_an_invalid_param_is_refused_with_a_400(
    installation: InstalledAirflow, api: AirflowApi, wrong: dict[str, Any]
) -> None:
    """A deploy form with an invalid param is refused with a 400 that names the field, and no run is created."""
    with pytest.raises(InvalidInput, match=f"400 .*{next(iter(wrong))}"):
        api.trigger(DAG, {**installation.form(), **wrong})


def test_a_misspelt_field_is_refused_by_name_before_anything_is_done(
    installation: InstalledAirflow, first: Run
) -> None:
    """A run with misspelt fields, such as ``dryrun``, fails with a suggestion for each and records nothing, because
    Airflow itself accepts any key and would deploy for real.
    """
    before = installation.state.number
    run = Run(first.api, {**installation.form(), "dryrun": True, "parms": {}})
    assert run.wait() == "failed"
    (told,) = run.told()
    assert "field 'dryrun', 'parms' are not known (perhaps write dry_run for dryrun, params for parms)" in told
    assert installation.state.number == before


def test_a_job_that_fails_to_import_leaves_the_running_driver_in_charge(
    installation: InstalledAirflow, first: Run
) -> None:
    """A job that fails to import is reported in one line that names the file and the missing module, and the running
    driver stays alive and in charge.
    """
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
    assert installation.system.installation.runner.observe(SALES_TOTALS, after.serving_instance).life is Life.ALIVE
    assert run.states()["fall_back"] == "skipped"
    (event,) = run.api.asset_events(DAG, run.run_id)
    assert (event["job"], event["outcome"]) == (SALES_TOTALS, "not-opened")
    assert told[0].endswith(event["sentence"])
    for task in ("bundle", "finish"):
        assert "Task exited" in run.log(task)
        assert "Task failed with exception" not in run.log(task), "Airflow shows a traceback"
