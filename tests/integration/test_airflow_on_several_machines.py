"""CeleryExecutor with a worker on each of two machines, which share a store and a database: tasks find theirs."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.celery_airflow import SHARED, CeleryAirflow, celery_airflow
from harness.forms import SALES_TOTALS, deploy_conf
from harness.ledger import compare_totals, expected_totals
from harness.machines import Machine, machine, missing_for_machines, network
from harness.outputs import read_totals
from harness.places import Places
from harness.postgres_server import new_database
from harness.producer import SALES, prepare, write_whole
from harness.redis_server import find_program, redis_server
from harness.rest import AirflowApi
from harness.waiting import wait_for, wait_until
from streamkeeper.model.job_state import JobState
from streamkeeper.model.journal import Outcome
from streamkeeper.model.operation import OperationState
from streamkeeper.operations.installation import Installation
from streamkeeper.registry.control import Control
from streamkeeper.registry.fleet import read_index
from tests.integration.installation import Run

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.postgres,
    pytest.mark.spark,
    pytest.mark.storage,
    pytest.mark.timeout(1800),
]
QUERY = f"{SALES_TOTALS}/totals"
A, B = "machine-a", "machine-b"
UNPROTECTED = """
from streamkeeper.operations.deploy import Deploy
Deploy._must_be_here = lambda *_: None
"""


class Fleet:
    """Two machines, Airflow, and one job; ``disk``: where each machine has its own directory at the same path."""

    def __init__(self, root: Path, airflow: CeleryAirflow, places: Places, environ: dict[str, str]) -> None:
        self.root, self.airflow, self.places, self.environ = root, airflow, places, environ
        self.machines: dict[str, Machine] = {}
        self.power: dict[str, ExitStack] = {}
        self._sales = 0

    @property
    def api(self) -> AirflowApi:
        return self.airflow.api

    @property
    def disk(self) -> Path:
        return self.root / "disk"

    @property
    def there(self) -> dict[str, str]:
        """The installation's variables on each machine: a home of its own, at the same path."""
        return {**self.environ, "STREAMKEEPER_HOME": str(self.disk / "home")}

    @property
    def site(self) -> Installation:
        return Installation.from_environment(self.environ)

    @property
    def state(self) -> JobState:
        return self.site.journal(SALES_TOTALS, "test").state()

    def work(self, name: str, on: str, queues: str, *, python_path: str = "") -> None:
        """Start a worker, and wait until it takes tasks."""
        worker = self.airflow.start_worker(name, self.machines[on], queues, self.there, python_path=python_path)
        wait_for(f"worker {name}", lambda: " ready." in Path(worker.log).read_text(errors="replace"), 120, poll_s=0.5)

    def rest(self, name: str) -> None:
        """End a worker as an upgrade does; drivers stay."""
        self.airflow.processes.stop(name, grace_s=30)

    def sell(self) -> None:
        name = f"{self._sales:06d}"
        sales = [(f"e{name}-{row}", f"c{row % 3}", row + self._sales) for row in range(20)]
        write_whole(self.places.input / SALES, f"{name}.csv", sales)
        self._sales += 1

    def form(self, **fields: Any) -> dict[str, Any]:
        fields = {"probation_batches": 0, "reason": "several machines", **fields}
        return deploy_conf(self.places, SALES_TOTALS, files_per_trigger=fields.pop("files", 100), **fields)

    def command(self, on: str, *words: str) -> tuple[int, str]:
        """The command line on a machine."""
        return self.machines[on].run([sys.executable, "-m", "streamkeeper.cli.main", *words], self.there)

    def host_of(self, instance: str) -> str:
        """Where a driver was started, by its own record."""
        return Control(self.site.store, SALES_TOTALS, instance).processes()[-1].host

    def processes_of(self, instance: str) -> set[tuple[int, float]]:
        """The processes of a driver on machine-a, each with the moment it began."""
        found = set()
        for each in self.machines[A].processes:
            with suppress(psutil.Error):
                if each.environ().get("STREAMKEEPER_INSTANCE") == instance:
                    found.add((each.pid, each.create_time()))
        return found

    def logs(self, on: str, run: Run, task: str) -> str:
        """What a task said on a machine."""
        folder = self.machines[on].own / "disk" / "airflow" / "logs" / f"dag_id={run.dag}" / f"run_id={run.run_id}"
        return "\n".join(file.read_text() for file in sorted((folder / f"task_id={task}").glob("*.log*")))

    def caught_up(self) -> bool:
        return read_totals(self.places.warehouse) == expected_totals(self.places.input / SALES)


@pytest.fixture(scope="module")
def fleet(postgres_server: str) -> Iterator[Fleet]:
    """Skips, by name, where namespaces or Redis are missing; all that it started is ended."""
    if missing := missing_for_machines():
        pytest.skip(missing)
    if find_program() is None:
        pytest.skip("no redis-server (Debian: apt-get install redis-server)")
    root = Path(tempfile.mkdtemp(prefix="streamkeeper-machines-"))
    places = Places(root)
    places.prepare()
    prepare(places.input)
    environ = {**places.environment(), "STREAMKEEPER_STORE": (root / "store").as_uri()}
    del environ["STREAMKEEPER_CHECKPOINTS"]  # in the home: each machine's own disk
    for each in ("BACKUP", "DRILL", "PRUNE", "WATCH"):
        environ[f"STREAMKEEPER_{each}_SCHEDULE"] = "never"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        net = stack.enter_context(network())
        broker = stack.enter_context(redis_server(root, net.address))
        database = new_database(postgres_server, f"airflow_{os.getpid()}")
        airflow = celery_airflow(root, environ, address=net.address, database=database, broker=broker)
        found = Fleet(root, airflow, places, environ)
        for number, name in enumerate((A, B), start=2):
            found.power[name] = stack.enter_context(ExitStack())
            made = machine(name, net, number, root / "machines", found.disk)
            found.machines[name] = found.power[name].enter_context(made)
        stack.callback(airflow.processes.stop_all)
        airflow.start()
        wait_for("the DAG of a deploy", lambda: airflow.api.has_dag("streaming_deploy"), 120, poll_s=1)
        found.work("worker-a", A, f"{SHARED},a")
        found.work("worker-b", B, f"{SHARED},b")
        yield found


def operation_of(fleet: Fleet, run: Run) -> OperationState:
    return fleet.state.operations[run.operation]


def test_a_deploy_finds_the_machine_of_its_drivers(fleet: Fleet) -> None:
    """A task that is sent to the other machine goes back until a worker of the right one takes it; others go to any.

    So do those of the next deploy, and every driver is on the machine of the first.
    """
    fleet.airflow.send({"bundle": "a", "standby": "b"})
    fleet.sell()
    first = Run(fleet.api, fleet.form())
    assert wait_until(lambda: "back into the queue (2 of 20)" in fleet.logs(B, first, "standby"), timeout_s=240)
    assert "it runs on machine-a, which cannot be looked at from machine-b" in fleet.logs(B, first, "standby")
    fleet.work("worker-a2", A, "b")
    assert first.wait() == "success", first.told()
    fleet.rest("worker-a2")
    fleet.airflow.send({})
    fleet.sell()
    second = Run(fleet.api, fleet.form(files=50))
    assert second.wait() == "success", second.told()
    state = fleet.state
    assert operation_of(fleet, second).outcome is Outcome.SUCCEEDED
    assert {fleet.host_of(each) for each in state.instances} == {A}
    assert (fleet.machines[A].own / "disk" / "home" / "checkpoints" / QUERY / "v0001").is_dir()
    assert not (fleet.machines[B].own / "disk" / "home" / "checkpoints" / QUERY).exists()
    assert wait_until(fleet.caught_up, timeout_s=60)


def test_what_comes_to_the_other_machine_only_is_refused_by_name(fleet: Fleet) -> None:
    """In Airflow once its chances are used up, in a shell at once: nothing is on record, and the driver serves on."""
    fleet.airflow.send({"": "b"})
    before, serving = fleet.state.number, fleet.state.serving_instance
    driver = fleet.processes_of(serving)
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
    assert f"do it on {A}" in told
    assert (fleet.state.number, fleet.state.serving_instance) == (before, serving)
    assert fleet.processes_of(serving) == driver != set()
    fleet.sell()
    assert wait_until(fleet.caught_up, timeout_s=60)


def test_backups_and_passes_of_the_watch_come_to_any_machine(fleet: Fleet) -> None:
    """The backup is taken on the disk's machine; a pass on the other one raises nothing and keeps the row."""
    fleet.airflow.send({})
    fleet.sell()
    assert wait_until(fleet.caught_up, timeout_s=60)
    backup = Run(fleet.api, {"job": SALES_TOTALS}, dag="streaming_backup")
    assert backup.wait() == "success"
    for queue in ("a", "b"):
        fleet.airflow.send({"": queue})
        watched = Run(fleet.api, {}, dag="streaming_watch")
        assert watched.wait() == "success"
    index = read_index(fleet.site.store, fleet.site.id)
    assert index is not None
    row = index.row(SALES_TOTALS)
    assert row is not None
    assert (row.symptoms, row.life.value if row.life else "", bool(row.memory.elsewhere_at)) == ((), "alive", True)
    assert not list(fleet.site.store.list("incidents/"))


def test_without_the_protection_a_task_on_the_wrong_machine_ends_the_deploy(fleet: Fleet) -> None:
    """The negative control: it gives up a candidate that is well, and the operation fails; what serves is untouched."""
    folder = fleet.root / "unprotected"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(UNPROTECTED)
    fleet.work("worker-off", B, "off", python_path=str(folder))
    fleet.airflow.send({"bundle": "a", "standby": "off", "": "a"})
    serving = fleet.state.serving_instance
    run = Run(fleet.api, fleet.form(files=20))
    assert run.wait() == "failed"
    operation = operation_of(fleet, run)
    assert operation.outcome in (Outcome.REFUSED, Outcome.FAILED)
    assert f"it runs on {A}, which cannot be looked at from {B}" in operation.sentence
    assert fleet.state.serving_instance == serving
    fleet.sell()
    assert wait_until(fleet.caught_up, timeout_s=60)
    sales = fleet.places.input / SALES
    assert compare_totals(SALES_TOTALS, expected_totals(sales), read_totals(fleet.places.warehouse)).clean


def test_a_machine_that_is_gone_for_good_is_said_to_be_and_another_one_goes_on(fleet: Fleet) -> None:
    """Not before: neither what it ran nor what lay on its disk is anybody's guess. Every row is there once."""
    serving, reason = fleet.state.serving_instance, ("--reason", "machine-a has burnt down")
    fleet.power[A].close()
    code, said = fleet.command(B, "start", SALES_TOTALS, *reason)
    assert (code != 0, f"state-dead {SALES_TOTALS} {serving}" in said) == (True, True), said
    assert fleet.command(B, "state-dead", SALES_TOTALS, serving, "--accept", *reason)[0] == 0
    code, said = fleet.command(B, "start", SALES_TOTALS, *reason)
    assert (code != 0, f"was written on {A}" in said, f"recover {SALES_TOTALS}" in said) == (True, True, True), said
    code, said = fleet.command(B, "recover", SALES_TOTALS, "--action", "restore", *reason)
    assert code == 0, said
    assert fleet.host_of(fleet.state.serving_instance) == B
    fleet.sell()
    assert wait_until(fleet.caught_up, timeout_s=60)
