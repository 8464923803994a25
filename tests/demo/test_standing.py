"""Tests of ``make up`` on a system with parts that have died, with a real Airflow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from demo.show import Screen
from demo.standing import revive
from harness.airflow_process import dead_parts
from harness.places import Places
from harness.processes import StartedProcess, StartedProcesses, free_ports
from harness.system import PRODUCER, System
from harness.waiting import wait_for

pytestmark = [pytest.mark.airflow, pytest.mark.storage, pytest.mark.timeout(600)]


def started(places: Places, name: str) -> StartedProcess:
    (found,) = [each for each in StartedProcesses(places.processes).read() if each.name == name]
    return found


def test_make_up_restarts_a_killed_scheduler_and_producer(tmp_path: Path) -> None:
    """``make up`` restarts a killed scheduler and a killed producer instead of reporting that the system is up.
    Unrelated processes stay alive, and a second call changes nothing.
    """
    places, told = Places(tmp_path), []
    system = System(places, told.append)
    screen = Screen()
    (port,) = free_ports(1)
    places.prepare()
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        system.start_producer()
        system.wait_for_airflow(system.start_airflow(port=port))
        assert system.dead_parts() == []
        airflow, producer = started(places, "airflow"), started(places, PRODUCER)
        (scheduler,) = [
            each
            for each in psutil.Process(airflow.pid).children()
            if "scheduler" in " ".join(each.cmdline()).split()[:4]
        ]
        scheduler.kill()
        psutil.Process(producer.pid).kill()
        wait_for("both ends", lambda: system.dead_parts() == [PRODUCER, "scheduler"])
        revive(system, screen, port=port)
        assert system.dead_parts() == []
        again = started(places, "airflow")
        assert dead_parts(again) == []
        assert again.pid != airflow.pid
        revive(system, screen, port=port)
        assert started(places, "airflow") == again
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
        system.stop()
