"""Tests of ``streamkeeper metrics`` as a person and as Prometheus use it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.processes import free_ports
from streamkeeper.cli.main import app
from streamkeeper.operations.jobs.installation import Installation

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STREAMKEEPER_HOME", str(tmp_path / "home"))
    Installation.from_environment(os.environ)
    return tmp_path / "home"


def test_metrics_once_prints_the_metrics_and_exits_with_0(home: Path) -> None:
    """``metrics --once`` prints the metrics to stdout and exits with 0."""
    ran = CliRunner().invoke(app, ["metrics", "--once"])
    assert ran.exit_code == 0, ran.output
    assert "streamkeeper_store_up 1.0" in ran.stdout


def test_metrics_listen_answers_http_requests_until_ctrl_c(home: Path) -> None:
    """``metrics --listen`` prints its address on stderr, answers HTTP requests, and exits with 0 and no further output
    on Ctrl-C; a second process at the same port is refused in one line.
    """
    port = free_ports(1)[0]
    words = [sys.executable, "-m", "streamkeeper.cli.main", "metrics", "--listen", f"127.0.0.1:{port}"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}
    with subprocess.Popen(words, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline() == f"metrics at http://127.0.0.1:{port}/metrics\n"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                assert re.match("text/plain", answer.headers["Content-Type"])
                assert "streamkeeper_store_up 1.0" in answer.read().decode()
            taken = CliRunner().invoke(app, ["metrics", "--listen", f"127.0.0.1:{port}"])
            assert (taken.exit_code, taken.stderr.count("\n")) == (2, 1)
            assert f"error: cannot listen on 127.0.0.1:{port}" in taken.stderr
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_an_invalid_listen_address_is_refused_in_one_line(home: Path) -> None:
    """An invalid address for ``--listen`` is refused in one line with exit code 2."""
    ran = CliRunner().invoke(app, ["metrics", "--listen", "everywhere"])
    assert (ran.exit_code, ran.stderr.count("\n")) == (2, 1)
    assert "--listen: 'everywhere' is not an address and port" in ran.stderr
