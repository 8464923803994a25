"""Tests of the systemd units that need no booted system."""

from __future__ import annotations

import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
from typer.main import get_command

from streamkeeper.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def read(name: str) -> ConfigParser:
    """Parse a unit file."""
    parser = ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / name)
    return parser


def test_units_are_valid(tmp_path: Path) -> None:
    """``systemd-analyze verify`` reports nothing about the units; negative control: it reports an unknown section."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    here = tmp_path / "bin"
    here.write_text("#!/bin/sh\n")
    here.chmod(0o755)
    for each in DEPLOY.glob("streamkeeper-watch.*"):
        text = each.read_text().replace("/opt/streamkeeper/.venv/bin/streamkeeper", str(here))
        (tmp_path / each.name).write_text(text)

    def verify() -> str:
        units = [str(tmp_path / "streamkeeper-watch.service"), str(tmp_path / "streamkeeper-watch.timer")]
        command = [program, "verify", "--man=no", "--recursive-errors=no", *units]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        ours = [line for line in (done.stdout + done.stderr).splitlines() if "streamkeeper-watch" in line]
        return "\n".join(ours)

    assert verify() == ""
    with (tmp_path / "streamkeeper-watch.service").open("a") as unit:
        unit.write("\n[Servise]\nType=oneshot\n")
    assert "Servise" in verify()


def test_a_driver_outlives_the_pass_that_starts_it() -> None:
    """The service's ``KillMode`` is ``process``: otherwise systemd would kill the drivers in its control group when a
    pass of the watch is over.
    """
    service = read("streamkeeper-watch.service")["Service"]
    assert service["KillMode"] == "process"
    assert service["SendSIGKILL"] == "no"
    assert service["Type"] == "oneshot"


def test_the_timer_runs_at_boot_and_every_minute() -> None:
    """The timer starts 20 s after boot, is enabled by installing it, and runs a service that exists with a valid
    command and options.
    """
    timer = read("streamkeeper-watch.timer")
    assert timer["Timer"]["OnBootSec"] == "20s"
    assert (DEPLOY / timer["Timer"]["Unit"]).exists()
    assert timer["Install"]["WantedBy"] == "timers.target"
    words = read("streamkeeper-watch.service")["Service"]["ExecStart"].split()[1:]
    command = get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    assert set(words[1:]) <= {name for each in command.params for name in each.opts}
