"""Airflow with CeleryExecutor: its servers run on this machine, its workers on others, connected by PostgreSQL and
Redis.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from harness.airflow_process import DATABASE, airflow_environment, choose_ports, without_airflow
from harness.machines import Machine
from harness.places import ROOT
from harness.processes import StartedProcess, StartedProcesses, is_running
from harness.rest import AirflowApi
from harness.waiting import wait_for
from streamkeeper.errors import TemporaryError
from streamkeeper.system.private_files import make_folders

SHARED = "default"
"""The default queue, which every worker reads."""
_PARTS = {
    "api-server": ["api-server", "--workers", "1"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}
_HEALTHY = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_QUEUES = '''"""Sends each new task to the queue that a file names for it: a test's hand on where tasks run."""

import json
from pathlib import Path


def task_instance_mutation_hook(task_instance, dag_run=None):
    queues = json.loads(Path({file!r}).read_text())
    task_instance.queue = queues.get(task_instance.task_id, queues.get("", {shared!r}))
'''


class CeleryAirflow(msgspec.Struct, frozen=True, kw_only=True):
    """An Airflow with CeleryExecutor. ``environment`` is that of its servers; a worker gets the ``AIRFLOW_HOME`` of its
    own machine.
    """

    root: Path
    url: str
    environment: dict[str, str]
    processes: StartedProcesses

    @property
    def api(self) -> AirflowApi:
        """Return a client of its REST interface."""
        return AirflowApi(self.url)

    def send(self, queues: Mapping[str, str]) -> None:
        """Route tasks that are created from now on to these queues, by their task ids; the id ``""`` stands for all
        other tasks.
        """
        (self.root / "queues.json").write_bytes(msgspec.json.encode(dict(queues)))

    def start(self) -> None:
        """Migrate the database, start all servers, and return once all are healthy."""
        home = self.root / "airflow"
        make_folders(home / "config")
        file = str(self.root / "queues.json")
        (home / "config" / "airflow_local_settings.py").write_text(_QUEUES.format(file=file, shared=SHARED))
        self.send({})
        with open(self.root / "migrate.log", "wb") as log:
            subprocess.run(
                _airflow("db", "migrate"), env=self.environment, stdout=log, stderr=log, timeout=300, check=True
            )
        started = [
            self.processes.start(
                name, _airflow(*words), environ=self.environment, log=self.root / f"{name}.log", cwd=ROOT
            )
            for name, words in _PARTS.items()
        ]
        wait_for("Airflow", lambda: self._is_healthy(started), 240, poll_s=1)

    def start_worker(
        self, name: str, on: Machine, queues: str, environ: Mapping[str, str], *, python_path: str = ""
    ) -> StartedProcess:
        """Start a worker for these queues on a machine; ``environ`` is the environment of the installation on that
        machine.
        """
        own = {"AIRFLOW_HOME": f"{environ['STREAMKEEPER_HOME']}/../airflow"}
        environment = {**self.environment, **environ, **own}
        if python_path:
            environment["PYTHONPATH"] = f"{python_path}:{environment['PYTHONPATH']}"
        words = _airflow("celery", "worker", "--queues", queues, "--concurrency", "2", "--skip-serve-logs")
        words += ["--celery-hostname", name, "--without-gossip", "--without-mingle"]
        return self.processes.start(name, on.words(words), environ=environment, log=self.root / f"{name}.log", cwd=ROOT)

    def _is_healthy(self, started: list[StartedProcess]) -> bool:
        for each in started:
            assert is_running(each), f"{each.name} ended: {Path(each.log).read_text()[-2000:]}"
        try:
            health = self.api.health()
        except TemporaryError:
            return False
        return all(health.get(each) == "healthy" for each in _HEALTHY)


def celery_airflow(
    root: Path, environ: Mapping[str, str], *, address: str, database: str, broker: str
) -> CeleryAirflow:
    """Return an Airflow that is not started yet. Its API server listens on ``address``; ``database`` and ``broker`` are
    URLs.
    """
    home = root / "airflow"
    make_folders(home)
    web, *log_ports = choose_ports(0)
    url = f"http://{address}:{web}"
    first, second = log_ports
    settings = airflow_environment(root=ROOT, home=home, url=url, log_ports=(first, second))
    database = database.replace("postgresql://", "postgresql+psycopg://")
    ours = {
        "CORE__EXECUTOR": "CeleryExecutor",
        "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "API__HOST": address,
        DATABASE.removeprefix("AIRFLOW__"): database,
        "DATABASE__SQL_ALCHEMY_CONN_ASYNC": database,
        "CELERY__BROKER_URL": f"{broker}/0",
        "CELERY__RESULT_BACKEND": f"{broker}/1",
        "OPERATORS__DEFAULT_QUEUE": SHARED,
    }
    environment = {
        **without_airflow(environ),
        **settings,
        **{f"AIRFLOW__{name}": value for name, value in ours.items()},
    }
    return CeleryAirflow(
        root=root, url=url, environment=environment, processes=StartedProcesses(root / "processes.json")
    )


def _airflow(*words: str) -> list[str]:
    return [str(Path(sys.executable).parent / "airflow"), *words]
