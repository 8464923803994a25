"""Provides one installation, one Airflow and one first deploy for all files of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.forms import SALES_TOTALS
from harness.places import ROOT
from harness.rest import AirflowApi
from harness.waiting import wait_until
from streamkeeper.model.protocol.liveness import Life
from tests.integration.installation import (
    APPROVERS,
    CODE,
    CONNECTION,
    InstalledAirflow,
    Interrupted,
    Run,
    deploy_first,
    edit,
)


@pytest.fixture(scope="package")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledAirflow]:
    """An installation whose job has a Python function below its state; its drivers and Airflow are stopped after the
    last file.
    """
    made = InstalledAirflow(tmp_path_factory.mktemp("installation"))
    edit(made, CODE)
    yield made
    made.system.stop()


@pytest.fixture(scope="package")
def api(installation: InstalledAirflow) -> AirflowApi:
    """The API of the started Airflow, with all its DAGs and the connection that the job's parameters name."""
    api = installation.start().api
    api.add_connection(CONNECTION, "generic", password=installation.secret)
    assert wait_until(lambda: all(api.has_dag(each.stem) for each in (ROOT / "dags").glob("*.py")), timeout_s=60)
    return api


@pytest.fixture(scope="package")
def first(installation: InstalledAirflow, api: AirflowApi) -> Run:
    """The successful deploy of release 1, with a probation."""
    return deploy_first(installation, api, probation_batches=1)


@pytest.fixture(scope="module")
def served(installation: InstalledAirflow, first: Run) -> InstalledAirflow:
    """The installation with the job running and every sale committed."""
    if installation.life() is not Life.ALIVE:
        begun = Run(first.api, {"job": SALES_TOTALS, "reason": "for the next file"}, dag="streaming_start")
        assert begun.wait() == "success", begun.log("start")
    assert wait_until(installation.at_rest, timeout_s=60)
    return installation


@pytest.fixture(scope="package")
def interrupted(installation: InstalledAirflow, first: Run) -> Interrupted:
    """The deploy of a release that names its approvers.

    All of Airflow is killed while the deploy waits for its standby, and the process of its handover task is killed once
    Airflow runs again. In between, a second deploy is triggered.
    """
    edit(installation, APPROVERS)
    installation.sell()
    installation.disarmed.unlink()
    form = installation.form()
    form["params"]["files_per_trigger"] = 50
    run = Run(first.api, form)
    # A task that begins late finds its driver ready, and is never deferred.
    assert wait_until(lambda: installation.is_launched(run), timeout_s=300, poll_s=0.2), (run.states(), run.told())
    installation.kill_airflow()
    assert installation.state.operations[run.operation].outcome is None
    installation.start()
    another = Run(first.api, installation.form())
    another.wait()
    run.wait()
    return Interrupted(run=run, form=form, another=another)
