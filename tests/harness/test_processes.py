"""Tests that every started process is stopped, and no other process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from harness.processes import StartedProcess, StartedProcesses, is_running, killed_after, session_of, stop_session
from harness.waiting import wait_until

# A parent, a child in a process group of its own (as Airflow's tasks are), and one that does not listen to SIGTERM.
FAMILY = """
import os, signal, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
subprocess.Popen(sleep, process_group=0)
subprocess.Popen([sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"])
time.sleep(60)
"""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[StartedProcesses]:
    started = StartedProcesses(tmp_path / "processes.json")
    yield started
    started.stop_all(grace_s=0.1)


def _start(processes: StartedProcesses, folder: Path, name: str, program: str) -> StartedProcess:
    command = [sys.executable, "-c", program]
    return processes.start(name, command, environ=dict(os.environ), log=folder / f"{name}.log", cwd=folder)


def test_stopping_a_session_terminates_detached_and_unresponsive_children(
    processes: StartedProcesses, tmp_path: Path
) -> None:
    """Stopping a process session also terminates children that left the process group and a child that ignores
    SIGTERM.
    """
    family = _start(processes, tmp_path, "family", FAMILY)
    log = tmp_path / "family.log"
    assert wait_until(lambda: "deaf" in log.read_text() and len(list(session_of(family))) == 3, timeout_s=10)
    members = list(session_of(family))
    stop_session(family, grace_s=0.3)
    assert [each for each in members if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []
    assert not is_running(family)


def test_a_recorded_pid_reused_by_a_different_process_is_not_signalled(tmp_path: Path) -> None:
    """A recorded pid that now belongs to a different process is not signalled."""
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        file = tmp_path / "processes.json"
        record = StartedProcess(name="old", pid=stranger.pid, began=1.0, log="")
        file.write_bytes(msgspec.json.encode([record]))
        StartedProcesses(file).stop_all(grace_s=0.1)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait(timeout=10)


def test_a_process_that_outlives_a_timeout_is_killed_and_waited_for() -> None:
    """A process that outlives its timeout is killed and its pipe closed. Negative control: without ``killed_after`` the
    process keeps running after the timeout.
    """
    sleeping = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.PIPE)

    def wait() -> None:
        with killed_after(sleeping):
            sleeping.communicate(timeout=0.1)

    with pytest.raises(subprocess.TimeoutExpired):
        sleeping.communicate(timeout=0.1)
    assert sleeping.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        wait()
    assert sleeping.stdout is not None
    assert (sleeping.returncode, sleeping.stdout.closed) == (-signal.SIGKILL, True)


def test_a_later_call_finds_what_an_earlier_one_started(processes: StartedProcesses, tmp_path: Path) -> None:
    """The record of started processes outlives the program that wrote it, so ``down`` stops what ``up`` started."""
    started = _start(processes, tmp_path, "sleeper", "import time; time.sleep(60)")
    again = StartedProcesses(tmp_path / "processes.json")
    assert again.read() == [started]
    again.stop("sleeper", grace_s=5)
    assert not is_running(started)
    assert again.read() == []
