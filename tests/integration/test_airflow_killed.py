"""All of Airflow dies in the middle of a deploy: scheduler, triggerer, workers, database connections."""

from __future__ import annotations

import signal

import psutil
import pytest

from harness.forms import SALES_TOTALS
from harness.ledger import compare_totals, expected_totals
from harness.outputs import read_totals
from harness.processes import session_of
from harness.producer import SALES
from harness.waiting import wait_until
from streamkeeper.model.journal import Outcome
from tests.integration.installation import CONNECTION, InstalledAirflow, Run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]


def is_launched(installation: InstalledAirflow, run: Run) -> bool:
    """Whether the run's operation has a driver, which takes seconds to be ready."""
    return any(each.operation == run.operation for each in installation.state.instances.values())


def test_a_deploy_outlives_a_killed_airflow(installation: InstalledAirflow) -> None:
    """SIGKILL to everything of Airflow while the deploy waits for its standby; started again, it carries the run on.

    The drivers are nobody's children, and what was decided is in the journal: nothing is lost or doubled.
    """
    airflow = installation.start()
    airflow.api.add_connection(CONNECTION, "generic", password=installation.secret)
    installation.sell()
    run = Run(airflow.api, installation.form())
    # A task that begins late finds its driver ready, and is never deferred.
    assert wait_until(lambda: is_launched(installation, run), timeout_s=300, poll_s=0.2), (run.states(), run.told())
    victims = list(session_of(airflow.process))
    assert any("scheduler" in " ".join(each.cmdline()) for each in victims)
    for each in victims:
        each.send_signal(signal.SIGKILL)
    assert psutil.wait_procs(victims, timeout=20)[1] == []
    operation = installation.state.operations[run.operation]
    assert operation.outcome is None

    run.api = installation.start().api
    assert run.wait() == "success", run.told()
    assert installation.state.operations[run.operation].outcome is Outcome.SUCCEEDED
    installation.sell()
    assert wait_until(installation.caught_up, timeout_s=60)
    installation.system.drain((SALES_TOTALS,))
    sales, totals = installation.places.input / SALES, read_totals(installation.places.warehouse)
    assert compare_totals(SALES_TOTALS, expected_totals(sales), totals).clean
