"""Tests of the CeleryExecutor with a worker on each of two machines that share a store and a database: each task
reaches the machine that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.forms import SALES_TOTALS
from harness.ledger import compare_totals, expected_totals
from harness.producer import SALES
from harness.waiting import wait_until
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.registry.fleet import read_index
from tests.integration.installation import Run
from tests.integration.several_machines import A, B, Fleet, opened_fleet, skip_without_machines

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.postgres,
    pytest.mark.spark,
    pytest.mark.storage,
    pytest.mark.timeout(1800),
]
QUERY = f"{SALES_TOTALS}/totals"
UNPROTECTED = """
from streamkeeper.operations.deploys.deploy import Deploy
Deploy._must_be_here = lambda *_: None
"""


@pytest.fixture(scope="module")
def fleet(postgres_server: str) -> Iterator[Fleet]:
    """Two machines, each with its own network, disk and processes."""
    skip_without_machines()
    with opened_fleet(postgres_server) as found:
        yield found


def test_tasks_of_a_deploy_reach_the_machine_of_its_drivers(fleet: Fleet) -> None:
    """A task that is sent to the wrong machine goes back into the queue until a worker on the right machine takes it;
    other tasks run on any machine.

    The same holds for the next deploy, and every driver runs on the first deploy's machine.
    """
    fleet.airflow.send({"bundle": "a", "standby": "b"})
    fleet.sell()
    first = Run(fleet.api, fleet.form())
    assert wait_until(lambda: "back into the queue (2 of 20)" in fleet.logs(B, first, "standby"), timeout_s=240)
    assert "it runs on machine-a, which cannot be inspected from machine-b" in fleet.logs(B, first, "standby")
    fleet.work("worker-a2", A, "b")
    assert first.wait() == "success", first.told()
    fleet.rest("worker-a2")
    fleet.airflow.send({})
    fleet.sell()
    second = Run(fleet.api, fleet.form(files=50))
    assert second.wait() == "success", second.told()
    state = fleet.state
    assert fleet.operation_of(second).outcome is Outcome.SUCCEEDED
    assert {fleet.host_of(each) for each in state.instances} == {A}
    assert (fleet.machines[A].own / "disk" / "home" / "checkpoints" / QUERY / "v0001").is_dir()
    assert not (fleet.machines[B].own / "disk" / "home" / "checkpoints" / QUERY).exists()
    assert wait_until(fleet.caught_up, timeout_s=60)


def test_a_request_to_the_wrong_machine_is_refused_with_the_right_name(fleet: Fleet) -> None:
    """A request that only reaches the wrong machine is refused with the right machine's name, in Airflow after its
    attempts are used up and in a shell at once; nothing is recorded and the driver keeps running.
    """
    fleet.airflow.send({"": "b"})
    before, serving = fleet.state.number, fleet.state.serving_instance
    driver = fleet.lasting_processes(serving)
    run = Run(fleet.api, fleet.form(files=25))
    for words in (
        ("deploy", SALES_TOTALS, "--dry-run"),
        ("rollback", SALES_TOTALS, "--reason", "on the wrong machine"),
        ("start", SALES_TOTALS, "--reason", "on the wrong machine"),
        ("recover", SALES_TOTALS),
        ("recover", SALES_TOTALS, "--action", "restart", "--reason", "on the wrong machine"),
        ("snapshot", "take", QUERY),
        ("logs", SALES_TOTALS),
    ):
        code, said = fleet.command(B, *words)
        assert (code != 0, A in said) == (True, True), (words, code, said)
    assert fleet.command(A, "snapshot", "take", QUERY)[0] == 0
    assert run.wait() == "failed"
    told = str(fleet.api.xcom(run.dag, run.run_id, "bundle", "error"))
    assert told.startswith(f"driver {serving} of job {SALES_TOTALS}: it runs on {A}"), told
    assert f"run the command on {A}" in told
    assert (fleet.state.number, fleet.state.serving_instance) == (before, serving)
    assert fleet.lasting_processes(serving) == driver != set()
    fleet.sell()
    assert wait_until(fleet.caught_up, timeout_s=60)


def test_backups_and_watch_passes_run_on_any_machine(fleet: Fleet) -> None:
    """A backup succeeds although its tasks may go to either machine; a watch pass on the machine without the driver
    raises no incident and keeps the job's row.
    """
    fleet.airflow.send({})
    fleet.sell()
    assert wait_until(fleet.caught_up, timeout_s=60)
    backup = Run(fleet.api, {"job": SALES_TOTALS}, dag="streaming_backup")
    assert backup.wait() == "success"
    for queue in ("a", "b"):
        fleet.airflow.send({"": queue})
        watched = Run(fleet.api, {}, dag="streaming_watch")
        assert watched.wait() == "success"
    index = read_index(fleet.installation.store, fleet.installation.id)
    assert index is not None
    row = index.row(SALES_TOTALS)
    assert row is not None
    assert (row.symptoms, row.life.value if row.life else "", bool(row.memory.elsewhere_at)) == ((), "alive", True)
    assert not list(fleet.installation.store.list("incidents/"))


def test_without_the_protection_a_task_on_the_wrong_machine_ends_the_deploy(fleet: Fleet) -> None:
    """Negative control: with the machine check patched out, a task on the wrong machine gives up a healthy candidate
    and the deploy fails; the serving driver and its output are unaffected.
    """
    folder = fleet.root / "unprotected"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(UNPROTECTED)
    fleet.work("worker-off", B, "off", python_path=str(folder))
    fleet.airflow.send({"bundle": "a", "standby": "off", "": "a"})
    serving = fleet.state.serving_instance
    run = Run(fleet.api, fleet.form(files=20))
    assert run.wait() == "failed"
    operation = fleet.operation_of(run)
    assert operation.outcome in (Outcome.REFUSED, Outcome.FAILED)
    assert f"it runs on {A}, which cannot be inspected from {B}" in operation.sentence
    assert fleet.state.serving_instance == serving
    fleet.sell()
    assert wait_until(fleet.caught_up, timeout_s=60)
    sales = fleet.places.input / SALES
    assert compare_totals(SALES_TOTALS, expected_totals(sales), fleet.totals()).clean


def test_a_job_leaves_a_lost_machine_after_stated_death_and_restore(fleet: Fleet) -> None:
    """After a machine is lost, a different machine starts the job only when a person has stated that the driver is dead
    and has accepted a restore from a snapshot in place of the checkpoint on the lost disk.
    """
    serving, reason = fleet.state.serving_instance, ("--reason", "machine-a has burnt down")
    fleet.power[A].close()
    code, said = fleet.command(B, "start", SALES_TOTALS, *reason)
    assert (code != 0, f"state-dead {SALES_TOTALS} {serving}" in said) == (True, True), said
    assert fleet.command(B, "state-dead", SALES_TOTALS, serving, "--accept", *reason)[0] == 0
    code, said = fleet.command(B, "start", SALES_TOTALS, *reason)
    assert (code != 0, f"was written on {A}" in said, f"recover {SALES_TOTALS}" in said) == (True, True, True), said
    code, said = fleet.command(B, "recover", SALES_TOTALS, "--action", "restore", "--accept-loss", *reason)
    assert code == 0, said
    assert fleet.host_of(fleet.state.serving_instance) == B
    fleet.sell()
    assert wait_until(fleet.caught_up, timeout_s=60)
