"""Tests of the CeleryExecutor with workers on two machines and drivers on YARN: any worker can run any task."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from harness.forms import SALES_TOTALS
from harness.hadoop_process import has_jars
from harness.ledger import Totals, compare_totals, expected_totals
from harness.places import WAREHOUSE_VARIABLE
from harness.producer import SALES
from harness.remote_servers import yarn_servers
from harness.waiting import wait_until
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.runner_kinds.yarn_kind import YARN
from streamkeeper.model.settings.setting_variables import SECRET_PREFIX
from streamkeeper.registry.driver_control import Control
from tests.integration.installation import Run
from tests.integration.several_machines import A, B, Fleet, opened_fleet, skip_without_machines

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.hdfs,
    pytest.mark.postgres,
    pytest.mark.spark,
    pytest.mark.storage,
    pytest.mark.timeout(1500),
]
_ALTERNATING = {
    "bundle": "a",
    "standby": "b",
    "assess": "a",
    "choose": "b",
    "takeover.handover": "a",
    "takeover.first_commit": "b",
    "takeover.snapshot": "a",
    "takeover.probation": "b",
    "takeover.promote": "a",
    "finish": "b",
}


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """Two machines that reach the YARN cluster over this machine's loopback and see only their own processes."""
    skip_without_machines()
    if not has_jars():
        pytest.skip("no HDFS jars (make connectors)")
    with yarn_servers() as servers:
        warehouse = servers.database.replace("postgresql://", "postgresql+psycopg://")
        more = {**servers.whereabouts.environment, f"{SECRET_PREFIX}{WAREHOUSE_VARIABLE}": warehouse}
        with opened_fleet(servers.database, more, one_network=True) as found:
            found.totals = lambda: read_totals(servers.database)
            yield found


def read_totals(database: str) -> dict[str, Totals]:
    """Return the totals per customer from the table in PostgreSQL; empty until the table exists."""
    with psycopg.connect(database) as connection:
        try:
            rows = connection.execute("SELECT customer, sales, total, squares FROM sales_totals").fetchall()
        except psycopg.errors.UndefinedTable:
            return {}
    return {customer: Totals(int(sales), int(total), int(squares)) for customer, sales, total, squares in rows}


def test_a_deploy_whose_tasks_alternate_between_machines(fleet: Fleet) -> None:
    """A second release takes over from the first while each task runs on a different machine than the task before it,
    and no task goes back into the queue.
    """
    for files, queues in ((100, _ALTERNATING), (50, {**_ALTERNATING, "bundle": "b", "takeover.handover": "b"})):
        fleet.airflow.send(queues)
        fleet.sell()
        run = Run(fleet.api, fleet.form(files=files, standby_s=300.0, first_commit_s=300.0, probation_s=300.0))
        assert run.wait() == "success", run.told()
        assert fleet.operation_of(run).outcome is Outcome.SUCCEEDED
        assert wait_until(fleet.caught_up, timeout_s=120)
        for task, queue in queues.items():
            there, elsewhere = (A, B) if queue == "a" else (B, A)
            assert fleet.logs(there, run, task), task
            assert not fleet.logs(elsewhere, run, task), task
            assert "back into the queue" not in fleet.logs(there, run, task)
    for instance in fleet.state.instances:
        launch = Control(fleet.installation.store, SALES_TOTALS, instance).read_launch()
        assert launch is not None
        assert launch.runner == YARN
    code, said = fleet.command(B, "stop", SALES_TOTALS, "--reason", "the test is over")
    assert code == 0, said
    sales = fleet.places.input / SALES
    assert compare_totals(SALES_TOTALS, expected_totals(sales), fleet.totals()).clean
