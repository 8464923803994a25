"""Tests the embedded Airflow's settings: no settings of another Airflow, no occupied port, and no signing key in the
environment.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path

import psutil
import pytest

from harness.airflow_process import PARTS, airflow_environment, choose_ports, dead_parts, without_airflow
from harness.processes import StartedProcesses, is_running
from harness.waiting import wait_for
from streamkeeper.errors import InvalidInput


def test_an_occupied_port_is_named_and_refused_before_the_start() -> None:
    """An occupied port is refused by name before the start, because ``airflow standalone`` would not notice that its
    web server died on it.
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"port {port} of 127.0.0.1 is taken"):
            choose_ports(port)


def test_chosen_ports_are_different_and_low() -> None:
    """The three chosen ports are distinct and below 32768, where the kernel assigns no port to an outgoing
    connection.
    """
    ports = choose_ports(0)
    assert len(set(ports)) == 3
    assert all(port < 32_768 for port in ports)


def test_the_signing_key_is_in_a_private_file_only(tmp_path: Path) -> None:
    """The signing key has at least 64 bytes, survives a restart, is readable by its owner alone, and appears in no
    child's environment.
    """
    first = airflow_environment(root=tmp_path, home=tmp_path, url="http://127.0.0.1:20000", log_ports=(1, 2))
    key = (tmp_path / "jwt-secret").read_text()
    assert len(key) >= 64
    assert stat.S_IMODE((tmp_path / "jwt-secret").stat().st_mode) == 0o600
    assert not any(key in value for value in first.values())
    airflow_environment(root=tmp_path, home=tmp_path, url="http://127.0.0.1:20000", log_ports=(1, 2))
    assert (tmp_path / "jwt-secret").read_text() == key


_STANDALONE = """
import subprocess, sys, time
if len(sys.argv) == 2:
    time.sleep(300)
parts = [subprocess.Popen([sys.executable, __file__, part]) for part in sys.argv[1:]]
time.sleep(300)
"""


def test_a_dead_airflow_component_is_reported_by_name(tmp_path: Path) -> None:
    """A dead component of Airflow is reported although ``airflow standalone`` keeps running without it. Negative
    control: while all components live, none is reported.
    """
    processes = StartedProcesses(tmp_path / "processes.json")
    (tmp_path / "airflow.py").write_text(_STANDALONE)
    command = [sys.executable, str(tmp_path / "airflow.py"), *PARTS]
    started = processes.start("airflow", command, environ=os.environ, log=tmp_path / "log", cwd=tmp_path)
    try:
        wait_for("all parts", lambda: not dead_parts(started))
        (scheduler,) = [each for each in psutil.Process(started.pid).children() if "scheduler" in each.cmdline()]
        scheduler.kill()
        wait_for("its end", lambda: dead_parts(started) == ["scheduler"])
        assert is_running(started)
    finally:
        processes.stop_all(grace_s=1)
    assert dead_parts(started) == list(PARTS)


def test_settings_of_another_airflow_stay_out() -> None:
    """Environment variables of another Airflow on the same machine are removed before the embedded Airflow starts."""
    environ = {"AIRFLOW_HOME": "/elsewhere", "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor", "PATH": "/bin"}
    assert without_airflow(environ) == {"PATH": "/bin"}
