"""Embedded Airflow: runs ``harness.standalone`` in its own session, with settings for a small machine.

Standalone does not watch its own children, so this module decides when Airflow has started: every component must report
healthy over HTTP before the deadline.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from harness.processes import StartedProcess, StartedProcesses, children_of, free_ports, is_running
from harness.rest import AirflowApi
from streamkeeper.errors import InvalidInput, StillWaiting, TemporaryError
from streamkeeper.system.private_files import make_folders

NAME = "airflow"
HOST = "127.0.0.1"
DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
LOCK_WAIT_S = 60
"""How long to wait for the lock of SQLite's file, in seconds; a scheduler that has waited this long exits."""
_PREFIX = "AIRFLOW__"
PARTS = ("scheduler", "dag-processor", "api-server", "triggerer")
"""The processes that standalone starts; it restarts none of them."""
_COMPONENTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")


class Airflow(msgspec.Struct, frozen=True, kw_only=True):
    """A started Airflow. ``url`` is its address for browsers and REST clients."""

    process: StartedProcess
    url: str

    @property
    def api(self) -> AirflowApi:
        """Return a client of its REST interface."""
        return AirflowApi(self.url)


def start_airflow(
    processes: StartedProcesses,
    *,
    root: Path,
    home: Path,
    environ: Mapping[str, str],
    port: int = 0,
    settings: Mapping[str, str] | None = None,
) -> Airflow:
    """Start Airflow on the project at ``root``, with all of its files in ``home``; does not wait until it is healthy.

    ``port`` 0 chooses a free port. ``settings`` are additional variables, which take precedence over the usual settings
    of the embedded Airflow. Raises InvalidInput if the port is taken.
    """
    make_folders(home)
    web, worker_logs, trigger_logs = choose_ports(port)
    url = f"http://{HOST}:{web}"
    usual = airflow_environment(root=root, home=home, url=url, log_ports=(worker_logs, trigger_logs))
    started = processes.start(
        NAME,
        [sys.executable, "-m", "harness.standalone"],
        environ={**without_airflow(environ), **usual, **(settings or {})},
        log=home / "standalone.log",
        cwd=root,
    )
    return Airflow(process=started, url=url)


def wait_until_healthy(airflow: Airflow, *, timeout_s: float = 180.0) -> None:
    """Return once every component reports healthy. Raises InvalidInput if Airflow exits, StillWaiting with the names of
    the components that are not healthy in time.
    """
    deadline = time.monotonic() + timeout_s
    missing = list(_COMPONENTS)
    while time.monotonic() < deadline:
        if not is_running(airflow.process):
            raise InvalidInput(
                f"Airflow ended while starting: {_last_line(airflow)}", hint=f"see {airflow.process.log}"
            )
        try:
            health = airflow.api.health()
        except TemporaryError:
            health = {}
        missing = [each for each in _COMPONENTS if health.get(each) != "healthy"]
        if not missing:
            return
        time.sleep(0.5)
    raise StillWaiting(
        f"Airflow at {airflow.url} is not healthy after {timeout_s:.0f} s: {', '.join(missing)}",
        hint=f"see {airflow.process.log}",
    )


def dead_parts(process: StartedProcess) -> list[str]:
    """Return the parts of a standalone Airflow that have no running process."""
    living = [part for part in PARTS for each in children_of(process) if _is_part(each, part)]
    return [part for part in PARTS if part not in living]


def _is_part(command: Sequence[str], part: str) -> bool:
    """Return whether a command line belongs to a part, by its arguments or by the title that the process sets:
    ``airflow api_server -- ...``.
    """
    words = [word.replace("_", "-") for argument in command for word in argument.split()]
    return part in words[:4]


def airflow_environment(*, root: Path, home: Path, url: str, log_ports: tuple[int, int]) -> dict[str, str]:
    """Return the settings of the embedded Airflow; a comment explains each one that is not obvious."""
    key_file = _write_signing_key(home / "jwt-secret")
    values = {
        "CORE__DAGS_FOLDER": str(root / "dags"),
        "CORE__PLUGINS_FOLDER": str(root / "plugins"),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",  # it listens on the loopback only
        "CORE__PARALLELISM": "4",  # the default forks 32 workers
        DATABASE.removeprefix(_PREFIX): f"sqlite:///{home / 'airflow.db'}?timeout={LOCK_WAIT_S}",
        "API__HOST": HOST,
        "API__PORT": url.rsplit(":", 1)[1],
        "API__BASE_URL": url,
        "API_AUTH__JWT_SECRET_CMD": f"cat {key_file}",  # a command keeps the key out of every child's environment
        "WORKERS__EXECUTION_API_TIMEOUT": "60",  # with 5 s the first calls after a cold start fail the whole run
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",  # the default's 1 s is felt; each look takes 20 ms of CPU
        "SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "2",
        # What died in a handover is to go on in a minute, not in the default's five: nothing serves meanwhile.
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
        "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",  # they do not change here, and each costs a second
        # Airflow gives its logs these modes whatever its umask is.
        "LOGGING__FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",
        "LOGGING__FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
        # Nobody listens there: a task's page asks for a running task's log although it has read the file.
        "LOGGING__WORKER_LOG_SERVER_PORT": str(log_ports[0]),
        "LOGGING__TRIGGER_LOG_SERVER_PORT": str(log_ports[1]),
        "USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    environment = {f"{_PREFIX}{name}": value for name, value in values.items()}
    environment["AIRFLOW_HOME"] = str(home)
    # standalone starts its parts by the bare name `airflow`.
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return environment


def without_airflow(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` without the settings of any other Airflow."""
    return {name: value for name, value in environ.items() if not name.startswith("AIRFLOW_")}


def choose_ports(wanted: int) -> tuple[int, int, int]:
    """Return the web port (``wanted``, or a free one for 0) and two more free ports; raises InvalidInput if ``wanted``
    is taken.
    """
    if wanted and not _is_free(wanted):
        raise InvalidInput(
            f"port {wanted} of {HOST} is taken", hint="stop what listens there, or set STREAMKEEPER_PORT to another"
        )
    first, second, *others = [port for port in free_ports(3) if port != wanted]
    return (wanted or others[0], first, second)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _write_signing_key(file: Path) -> Path:
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return file
    with os.fdopen(descriptor, "w") as output:
        output.write(secrets.token_hex(48))
    return file


def _last_line(airflow: Airflow) -> str:
    lines = Path(airflow.process.log).read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it wrote nothing"
