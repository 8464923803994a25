"""Tests the search for real driver processes whose records are lost: they are found by their marks, and where a search
proves nothing, that is reported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from harness.waiting import wait_for
from streamkeeper.model.settings.settings import Settings
from streamkeeper.runners.leftovers import end_leftovers, find_leftovers, why_unseen
from streamkeeper.runners.machine import FIRST_PID_NAMESPACE, this_machine

BESIDE = "import os, subprocess, time; subprocess.Popen(['sleep', '300'], env={}); time.sleep(300)"
"""A supervisor with a child process whose environment is empty."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "cp").mkdir()
    places = {name: str(tmp_path / name) for name in ("store", "jobs", "home")}
    return Settings(checkpoints=str(tmp_path / "cp"), **places)


@pytest.fixture
def supervisor(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    environ = {"PATH": os.environ["PATH"], "STREAMKEEPER_CHECKPOINTS": settings.checkpoints}
    marked = {**environ, "STREAMKEEPER_INSTANCE": "sales/op-candidate", "STREAMKEEPER_INSTALLATION": "mine"}
    started = subprocess.Popen([sys.executable, "-c", BESIDE], env=marked, start_new_session=True)
    yield started
    end_leftovers("sales", settings)
    started.wait()


def test_a_driver_is_found_with_all_of_its_session(settings: Settings, supervisor: subprocess.Popen[bytes]) -> None:
    """A leftover driver is found by its checkpoints or its installation, together with the processes of its session
    that have no environment, and all of them are killed.
    """
    wait_for("both processes", lambda: [len(each.processes) for each in find_leftovers("sales", settings)] == [2])
    elsewhere = msgspec.structs.replace(settings, checkpoints="/elsewhere")
    assert find_leftovers("sales", elsewhere) == []
    assert [each.installation for each in find_leftovers("sales", elsewhere, ["mine"])] == ["mine"]
    assert find_leftovers("sale", settings) == []
    (found,) = find_leftovers("sales", settings)
    assert end_leftovers("sales", settings) == []
    supervisor.wait()
    assert [each.pid for each in found.processes if Path(f"/proc/{each.pid}/exe").exists()] == []


def test_a_search_that_proves_nothing_reports_why(settings: Settings) -> None:
    """The search reports why it proves nothing in a container, on a shared file system, on an object store and for a
    different user's checkpoints.
    """
    here, folder = this_machine(), settings.checkpoints
    machine = msgspec.structs.replace(here, pid_namespace=FIRST_PID_NAMESPACE)
    assert why_unseen([folder], machine=machine) == ""
    container = msgspec.structs.replace(here, pid_namespace="4026532001")
    assert "sees only its own processes" in why_unseen([folder], machine=container)
    assert "other machines can mount" in why_unseen(["/proc"], machine=machine)
    assert "from any machine" in why_unseen(["s3a://bucket/checkpoints"], machine=machine)
    stranger = msgspec.structs.replace(machine, user=os.geteuid() + 4711)
    assert "cannot read" in why_unseen([folder], machine=stranger)
