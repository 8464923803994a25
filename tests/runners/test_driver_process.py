"""Tests how a supervisor waits for a driver's process and its output."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from streamkeeper.runners.driver_log import DriverLog
from streamkeeper.runners.driver_process import DriverProcess
from streamkeeper.system.memory_kills import RecentKills

SILENT = """
import os, sys, time
os.write(1, b"closes its output\\n")
os.close(1)
os.close(2)
time.sleep(0.7)
os._exit(7)
"""


def test_the_supervisor_sleeps_while_a_driver_without_output_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a driver closes its output before it exits, the supervisor sleeps until the exit instead of polling the
    closed pipe.
    """
    looks: list[float] = []
    monkeypatch.setattr(RecentKills, "look", lambda _: looks.append(time.monotonic()))
    path = tmp_path / "one.log"
    process = DriverProcess([sys.executable, "-S", "-c", SILENT], dict(os.environ), DriverLog(path, {}))
    assert process.wait_at_most(60.0) == 7
    process._close()
    assert path.read_text() == "closes its output\n"
    assert len(looks) <= 10
