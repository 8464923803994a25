"""Tests the process that provides the remote servers of a job of which only the driver runs locally."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import msgspec
import psutil
import pytest

from harness import remote_servers
from harness.places import ROOT, Places
from harness.processes import StartedProcesses, session_of
from harness.remote_servers import Whereabouts, find_programs
from harness.topic_ledger import connect, read_counts
from harness.waiting import wait_for
from streamkeeper.errors import NotFound
from tests.servers import skip_without_s3a


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (
            "postgres_server.find_programs",
            "there are no PostgreSQL server programs (Debian: apt-get install postgresql)",
        ),
        ("CONNECTORS", "s3a's jars are not there (make connectors)"),
    ],
)
def test_a_missing_dependency_is_reported_in_one_line_before_any_server_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str, told: str
) -> None:
    """A missing dependency is reported in one line with the remedy before any server is started."""
    skip_without_s3a()
    gone = tmp_path if missing == "CONNECTORS" else lambda: None
    monkeypatch.setattr(f"harness.remote_servers.{missing}", gone)
    with pytest.raises(NotFound) as refused:
        find_programs()
    assert str(refused.value) == told


@pytest.mark.spark
@pytest.mark.s3
@pytest.mark.postgres
@pytest.mark.parametrize("ready", [True, False], ids=["running", "starting"])
def test_stopped_servers_terminate_and_remove_their_files(tmp_path: Path, *, ready: bool) -> None:
    """When they are stopped, all servers including PostgreSQL terminate and remove their files, even while they are
    still starting.
    """
    skip_without_s3a()
    try:
        remote_servers.find_programs()
    except NotFound as missing:
        pytest.skip(str(missing))
    temporary = Path(tempfile.mkdtemp(prefix="streamkeeper-test-"))
    temporary.chmod(0o755)  # PostgreSQL's own user goes through here
    file, processes = tmp_path / "servers.json", StartedProcesses(tmp_path / "processes.json")
    environ = Places(tmp_path).environment() | {"TMPDIR": str(temporary)}
    command = [sys.executable, "-m", "harness.remote_servers", remote_servers.S3, str(file)]
    started = processes.start("servers", command, environ=environ, log=tmp_path / "log", cwd=ROOT)
    try:
        postgres = wait_for("PostgreSQL", lambda: [p for p in session_of(started) if p.name() == "postgres"], 120)
        if ready:
            wait_for("the servers", file.exists, 120)
            with connect(msgspec.json.decode(file.read_bytes(), type=Whereabouts).database) as database:
                assert read_counts(database) == {}
    finally:
        processes.stop_all(grace_s=60)
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in postgres)
    assert list(session_of(started)) == []
    # What the JVM keeps of itself goes with its process, or with the next one.
    assert [left.name for left in temporary.iterdir() if not left.name.startswith("hsperfdata")] == []
    shutil.rmtree(temporary)
