"""A job whose checkpoint is deleted under its killed driver, through a real Airflow: looked at, asked about, brought
back."""

from __future__ import annotations

import shutil

import pytest

from demo.processes import wait_until
from demo.releases import SALES_TOTALS
from demo.rest import AirflowApi
from streamkeeper.model.liveness import Life
from streamkeeper.operations.backup import back_up
from streamkeeper.operations.targets import query_target
from tests.integration.installation import Installation, Run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]
RECOVER = "streaming_recover"


@pytest.fixture(scope="module")
def broken(installation: Installation, api: AirflowApi) -> AirflowApi:
    """Two batches committed, a snapshot of the first, no driver and no checkpoint."""
    installation.sell()
    deploy = Run(api, installation.form())
    assert deploy.wait() == "success", deploy.told()
    assert wait_until(installation.at_rest, timeout_s=60)
    site = installation.system.site
    back_up(site.snapshots, query_target(site, SALES_TOTALS, "totals"))
    installation.sell()
    assert wait_until(installation.at_rest, timeout_s=60)
    instance = installation.state.appointed
    site.runner.kill(SALES_TOTALS, instance)
    assert wait_until(lambda: site.runner.observe(SALES_TOTALS, instance).life is Life.DEAD, timeout_s=30)
    shutil.rmtree(installation.checkpoint)
    assert wait_until(lambda: api.has_dag(RECOVER), timeout_s=60)
    return api


def test_the_default_looks_and_touches_nothing(installation: Installation, broken: AirflowApi) -> None:
    """The run succeeds with the cause, the evidence and the prices as its report."""
    before = installation.state.number
    run = Run(broken, {"job": SALES_TOTALS}, dag=RECOVER)
    assert run.wait() == "success", run.told()
    report = broken.xcom(RECOVER, run.run_id, "diagnose", "report")
    assert "checkpoint-lost" in report
    assert "**restore** (a person has to accept it)" in report
    assert installation.state.number == before


def test_a_restart_of_a_lost_checkpoint_is_refused_with_the_reason(
    installation: Installation, broken: AirflowApi
) -> None:
    """Before anybody is asked, and before anything is opened."""
    run = Run(broken, {"job": SALES_TOTALS, "action": "restart"}, dag=RECOVER)
    assert run.wait() == "failed"
    assert "restart of sales_totals is not possible" in run.told()[0]
    assert run.operation not in installation.state.operations


def test_a_restore_waits_for_a_person_and_brings_it_back(installation: Installation, broken: AirflowApi) -> None:
    """Whose name is in the record; after it the table equals what was sold, and the next look finds nothing wrong."""
    run = Run(broken, {"job": SALES_TOTALS, "action": "restore"}, dag=RECOVER)
    assert wait_until(lambda: run.states()["accept"] in ("deferred", "awaiting_input"), timeout_s=300), run.told()
    assert "LOSES perhaps some of it" in broken.question(RECOVER, run.run_id, "accept")
    run.answer("accept", "Approve", reason="nothing deletes sales files")
    assert run.wait() == "success", run.told()
    recover = installation.state.operations[run.operation].request.recover
    assert recover is not None
    assert recover.accepted_by not in ("", "airflow")
    assert installation.state.current == {"totals": "v0002"}
    installation.sell()
    assert wait_until(installation.caught_up, timeout_s=60)
    again = Run(broken, {"job": SALES_TOTALS}, dag=RECOVER)
    assert again.wait() == "success", again.told()
    assert "nothing-wrong" in broken.xcom(RECOVER, again.run_id, "diagnose", "report")
