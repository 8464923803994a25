"""Provides two machines with an Airflow worker each, and one job, for the tests of installations on several
machines.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.celery_airflow import SHARED, CeleryAirflow, celery_airflow
from harness.forms import SALES_TOTALS, deploy_conf
from harness.ledger import Totals, expected_totals
from harness.machines import LOOPBACK, Machine, machine, missing_for_machines, network
from harness.outputs import read_totals
from harness.places import Places
from harness.postgres_server import new_database
from harness.producer import SALES, prepare, write_whole
from harness.redis_server import find_program, redis_server
from harness.rest import AirflowApi
from harness.waiting import wait_for
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.operation import OperationState
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.driver_control import Control
from tests.integration.installation import Run

A, B = "machine-a", "machine-b"


class Fleet:
    """Two machines, Airflow, and one job; ``disk`` is the path at which each machine has a directory of its own."""

    def __init__(self, root: Path, airflow: CeleryAirflow, places: Places, environ: dict[str, str]) -> None:
        self.root, self.airflow, self.places, self.environ = root, airflow, places, environ
        self.machines: dict[str, Machine] = {}
        self.power: dict[str, ExitStack] = {}
        self.totals: Callable[[], dict[str, Totals]] = lambda: read_totals(places.warehouse)
        self._sales = 0

    @property
    def api(self) -> AirflowApi:
        return self.airflow.api

    @property
    def disk(self) -> Path:
        return self.root / "disk"

    @property
    def there(self) -> dict[str, str]:
        """The installation's variables on each machine, with a home of the machine's own at the same path."""
        return {**self.environ, "STREAMKEEPER_HOME": str(self.disk / "home")}

    @property
    def installation(self) -> Installation:
        return Installation.from_environment(self.environ)

    @property
    def state(self) -> JobState:
        return self.installation.journal(SALES_TOTALS, "test").state()

    def work(self, name: str, on: str, queues: str, *, python_path: str = "") -> None:
        """Start a worker and wait until it accepts tasks."""
        worker = self.airflow.start_worker(name, self.machines[on], queues, self.there, python_path=python_path)
        wait_for(f"worker {name}", lambda: " ready." in Path(worker.log).read_text(errors="replace"), 120, poll_s=0.5)

    def rest(self, name: str) -> None:
        """Stop a worker as an upgrade does; its drivers keep running."""
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
        """Run the command line on a machine, and return its exit code and output."""
        return self.machines[on].run([sys.executable, "-m", "streamkeeper.cli.main", *words], self.there)

    def operation_of(self, run: Run) -> OperationState:
        return self.state.operations[run.operation]

    def host_of(self, instance: str) -> str:
        """Return the host on which a driver was started, according to its own record."""
        return Control(self.installation.store, SALES_TOTALS, instance).processes()[-1].host

    def lasting_processes(self, instance: str) -> set[tuple[int, str]]:
        """Return the processes of the instance's supervisor, driver and JVM on machine-a, without the short-lived
        Python workers.
        """
        found = set()
        for each in self.machines[A].processes:
            with suppress(psutil.Error):
                if each.environ().get("STREAMKEEPER_INSTANCE") == f"{SALES_TOTALS}/{instance}":
                    found.add((each.pid, " ".join(each.cmdline())))
        return {(pid, line) for pid, line in found if "pyspark.daemon" not in line}

    def logs(self, on: str, run: Run, task: str) -> str:
        """Return what a task logged on a machine."""
        folder = self.machines[on].own / "disk" / "airflow" / "logs" / f"dag_id={run.dag}" / f"run_id={run.run_id}"
        return "\n".join(file.read_text() for file in sorted((folder / f"task_id={task}").glob("*.log*")))

    def caught_up(self) -> bool:
        return self.totals() == expected_totals(self.places.input / SALES)


def skip_without_machines() -> None:
    """Skip the test with the reason if namespaces or Redis are missing."""
    if missing := missing_for_machines():
        pytest.skip(missing)
    if find_program() is None:
        pytest.skip("no redis-server (Debian: apt-get install redis-server)")


@contextmanager
def opened_fleet(server: str, more: Mapping[str, str] | None = None, *, one_network: bool = False) -> Iterator[Fleet]:
    """Start both machines with a worker each, and stop everything that was started at the end.

    ``server`` is the URL of PostgreSQL, ``more`` adds variables of the installation, and ``one_network`` lets the
    machines share this machine's network.
    """
    root = Path(tempfile.mkdtemp(prefix="streamkeeper-machines-"))
    places = Places(root)
    places.prepare()
    prepare(places.input)
    environ = {**places.environment(), "STREAMKEEPER_STORE": (root / "store").as_uri()}
    del environ["STREAMKEEPER_CHECKPOINTS"]  # in the home: each machine's own disk
    for each in ("BACKUP", "DRILL", "PRUNE", "WATCH"):
        environ[f"STREAMKEEPER_{each}_SCHEDULE"] = "never"
    environ.update(more or {})
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        joined = LOOPBACK if one_network else stack.enter_context(network())
        broker = stack.enter_context(redis_server(root, joined.address))
        database = new_database(server, f"airflow_{os.getpid()}")
        airflow = celery_airflow(root, environ, address=joined.address, database=database, broker=broker)
        found = Fleet(root, airflow, places, environ)
        for number, name in enumerate((A, B), start=2):
            found.power[name] = stack.enter_context(ExitStack())
            made = machine(name, joined, number, root / "machines", found.disk)
            found.machines[name] = found.power[name].enter_context(made)
        stack.callback(airflow.processes.stop_all)
        airflow.start()
        wait_for("the DAG of a deploy", lambda: airflow.api.has_dag("streaming_deploy"), 120, poll_s=1)
        found.work("worker-a", A, f"{SHARED},a")
        found.work("worker-b", B, f"{SHARED},b")
        yield found
