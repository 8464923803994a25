"""Rebuilding journals from real places: a checkpoint's files, a table with its fence, an epoch log and running
processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streamkeeper.cli.main import app
from streamkeeper.errors import Fenced, OperationRefused
from streamkeeper.model.manifests.finding import Severity
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.registered import recorded_findings
from streamkeeper.operations.recovery.restoring import plan_restore
from streamkeeper.registry.installations import open_installation
from streamkeeper.registry.journal import Journal
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.file import FileSink
from streamkeeper.sinks.sink_log import continue_log
from streamkeeper.sinks.table import TableSink
from streamkeeper.sinks.table_writer import TableWriter
from streamkeeper.stores.local import LocalStore
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.snapshots.series import files_below

REASON = ("--reason", "the directory was deleted", "--no-driver-elsewhere")
"""The words of a rebuild; the last one is needed because a container does not see the processes outside it."""


class Lost:
    """An installation with one job whose store was deleted and recreated empty; the job's table was claimed five
    times.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.job = root, Registered(root)
        self.settings = self.job.installation.settings
        self.id = open_installation(self.job.installation.store, self.settings.home).id
        self.url = f"sqlite:///{self.job.warehouse}"
        for epoch in range(1, 6):
            self.claim(epoch)
        with sqlite3.connect(self.job.warehouse) as connection:
            connection.execute("UPDATE streamkeeper_outputs SET version = 'v0001', batch_id = 7")
        for name in ("home", "store", "checkpoints", "jobs"):
            monkeypatch.setenv(f"STREAMKEEPER_{name.upper()}", getattr(self.settings, name))
        shutil.rmtree(root / "store")
        assert open_installation(LocalStore(root / "store"), self.settings.home).id != self.id

    def claim(self, epoch: int) -> TableWriter:
        """Return a writer of the table that has raised its fence to this epoch."""
        context = SinkContext(job=JOB, query=QUERY, version="v0001", epoch=epoch, installation=self.id)
        writer = TableSink(self.url, table="totals", key=["k"]).open(context)
        writer.raise_fence()
        return writer

    def rebuild(self, *words: str, output: str = "") -> Result:
        """Run the rebuild command, with these words in place of a reason."""
        return CliRunner().invoke(app, ["registry", "rebuild", "--output", output or self.url, *(words or REASON)])

    @property
    def files(self) -> dict[str, bytes]:
        """All files with their contents; of the database its rows, because SQLite moves pages when it is read."""
        files = {path: each for path, each in files_below(self.root).items() if not path.startswith("warehouse.db")}
        with sqlite3.connect(self.job.warehouse) as connection:
            return {**files, "warehouse.db": "\n".join(connection.iterdump()).encode()}

    @property
    def state(self) -> JobState:
        return Journal(LocalStore(self.root / "store"), JOB, writer="test").state()

    @property
    def installation(self) -> Installation:
        return Installation.from_environment(os.environ)


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lost:
    return Lost(tmp_path, monkeypatch)


def test_a_rebuild_writes_one_journal_entry_and_changes_no_data(lost: Lost) -> None:
    """A dry run changes no file; a rebuild writes one journal entry and leaves the checkpoint and the output unchanged,
    and the commands report the job as rebuilt.
    """
    everything = lost.files
    looked = lost.rebuild("--dry-run", "--no-driver-elsewhere")
    assert (looked.exit_code, lost.state.number) == (0, 0), looked.output
    assert f"{JOB}: query {QUERY}: v0001 was current (batch 7 committed)" in looked.output
    assert "the next epoch of every query is above 5" in looked.output
    assert lost.files == everything
    done = lost.rebuild()
    assert done.exit_code == 0, done.output
    assert lost.state.number == 1
    touched = {path for path, content in lost.files.items() if everything.get(path) != content}
    assert {path.partition("/")[0] for path in touched} <= {"store", "home"}
    assert lost.installation.id == lost.id
    for words in (["jobs", "--now"], ["status", JOB], ["history", JOB]):
        told = CliRunner().invoke(app, words)
        assert told.exit_code == 0, told.output
        assert "rebuilt" in told.output, told.output


@pytest.mark.parametrize("left", [False, True], ids=["gone", "emptied"])
def test_a_missing_store_is_rebuilt_under_its_old_installation_id(lost: Lost, left: bool) -> None:
    """Without a store, ``jobs`` fails with a hint at the rebuild command, a dry run writes nothing, and a rebuild
    recreates the installation under its old id.
    """
    shutil.rmtree(lost.root / "store")
    if left:
        (lost.root / "store").mkdir()
    looked = CliRunner().invoke(app, ["jobs"])
    assert (looked.exit_code, "If the store was lost, run `streamkeeper registry rebuild`" in looked.stderr) == (
        2,
        True,
    )
    everything = lost.files
    assert lost.rebuild("--dry-run", "--no-driver-elsewhere").exit_code == 0
    assert lost.files == everything
    done = lost.rebuild()
    assert done.exit_code == 0, done.output
    assert (lost.state.next_epoch(QUERY), lost.installation.id) == (6, lost.id)


def test_a_rebuild_in_a_home_without_checkpoints_is_refused(
    lost: Lost, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuild in a home without checkpoints is refused and creates no store there."""
    home = tmp_path_factory.mktemp("mistyped")
    for name in ("STORE", "CHECKPOINTS"):
        monkeypatch.delenv(f"STREAMKEEPER_{name}")
    monkeypatch.setenv("STREAMKEEPER_HOME", str(home))
    refused = lost.rebuild()
    assert (refused.exit_code, "does not exist (mount it" in refused.stderr) == (2, True)
    assert not list(home.iterdir())


def test_after_a_rebuild_the_next_epoch_is_above_all_earlier_ones(lost: Lost) -> None:
    """After a rebuild the next epoch is above the earlier ones, so that an old driver is fenced out. Negative control:
    without the rebuild the new driver is fenced out at first, and later shares epoch 5 with the old one, so that both
    may write.
    """
    zombie = lost.claim(5)
    with pytest.raises(Fenced, match="epoch 1 has been superseded by epoch 5"):
        lost.claim(lost.state.next_epoch(QUERY))
    lost.claim(5)
    zombie.raise_fence()
    lost.rebuild()
    lost.claim(lost.state.next_epoch(QUERY))
    with pytest.raises(Fenced, match="epoch 5 has been superseded by epoch 6"):
        zombie.raise_fence()


def test_a_rebuild_leaves_an_existing_journal_unchanged(lost: Lost) -> None:
    """A second rebuild leaves the rebuilt journal unchanged, and a rebuild of a named job with a journal is refused."""
    assert lost.rebuild().exit_code == 0
    before = files_below(lost.root / "store" / "registry")
    again = lost.rebuild()
    assert (again.exit_code, "was rebuilt from checkpoints" in again.output) == (0, True)
    named = CliRunner().invoke(app, ["registry", "rebuild", JOB, "--output", lost.url, *REASON])
    assert (named.exit_code, "NOT rebuilt" in named.output) == (1, True)
    assert files_below(lost.root / "store" / "registry") == before


@pytest.mark.parametrize(
    "point", ["rebuild.installation.after", "record.job-rebuilt.before", "record.job-rebuilt.after"]
)
def test_a_rebuild_that_is_killed_is_carried_on_by_the_same_command(lost: Lost, point: str) -> None:
    """A rebuild that is killed at any of its failpoints is completed by a rerun of the same command, with one journal
    entry and the old installation id.
    """
    words = [sys.executable, "-m", "streamkeeper.cli.main", "registry", "rebuild", "--output", lost.url, *REASON]
    killed = subprocess.run(words, env={**os.environ, "STREAMKEEPER_CRASH": point}, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert lost.rebuild().exit_code == 0
    assert (lost.state.number, lost.installation.id) == (1, lost.id)


@pytest.fixture
def driver(lost: Lost) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is marked as a driver of the job in the lost installation."""
    marks = {"STREAMKEEPER_INSTANCE": f"{JOB}/op-candidate", "STREAMKEEPER_INSTALLATION": lost.id}
    started = subprocess.Popen(["sleep", "300"], env={**os.environ, **marks}, start_new_session=True)
    yield started
    started.kill()
    started.wait()


def test_a_rebuild_with_a_running_driver_is_refused_without_end_drivers(
    lost: Lost, driver: subprocess.Popen[bytes]
) -> None:
    """A rebuild is refused while a driver of the job runs, which is found by its environment in /proc;
    ``--end-drivers`` kills it, and leaves a driver of a different store alone.
    """
    for words in (("--dry-run", "--no-driver-elsewhere"), REASON):
        refused = lost.rebuild(*words)
        assert (refused.exit_code, f"processes {driver.pid}" in refused.output) == (1, True), refused.output
        assert lost.state.number == 0
    assert driver.poll() is None
    marks = {"STREAMKEEPER_INSTANCE": f"{JOB}/of-another", "STREAMKEEPER_STORE": "/elsewhere"}
    other = subprocess.Popen(["sleep", "300"], env={**marks, "PATH": os.environ["PATH"]}, start_new_session=True)
    try:
        done = lost.rebuild("--end-drivers", *REASON)
        assert done.exit_code == 0, done.output
        assert "driver op-candidate of sales was stopped" in done.output
        assert driver.wait(10) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_deploy_from_a_rebuilt_journal_needs_an_approval(lost: Lost) -> None:
    """A deploy from a rebuilt journal needs an approval, because the old release is not recorded; a missing checkpoint
    is still reported as lost.
    """
    lost.rebuild()
    found = recorded_findings(lost.installation, lost.state)[QUERY]
    assert [(each.rule, each.severity) for each in found] == [("release-not-on-record", Severity.OPAQUE)]
    with pytest.raises(OperationRefused, match="the release that wrote v0001 of sales/totals is not recorded"):
        plan_restore(lost.installation, JOB, QUERY, None)  # type: ignore[arg-type]
    shutil.rmtree(lost.job.directory)
    assert recorded_findings(lost.installation, lost.state)[QUERY][0].rule == "checkpoint-lost"


def test_a_rebuild_reads_output_versions_from_the_epoch_log_of_files(lost: Lost, tmp_path: Path) -> None:
    """A rebuild from files reads the versions of the output from the newest claim in their epoch log."""
    output = tmp_path / "out"
    for epoch, serving in ((3, (OutputSegment("v0001"),)), (4, (OutputSegment("v0000", 5), OutputSegment("v0001")))):
        context = SinkContext(job=JOB, query=QUERY, version="v0001", epoch=epoch, serving=serving, installation=lost.id)
        FileSink(str(output)).open(context).raise_fence()
    continue_log(f"{output}/v0001", 7)
    done = lost.rebuild(output=str(output))
    assert done.exit_code == 0, done.output
    assert lost.state.segments(QUERY, "v0001") == (OutputSegment("v0000", 5), OutputSegment("v0001"))
    assert lost.state.next_epoch(QUERY) == 5


def test_invalid_rebuild_input_is_refused_in_one_line(lost: Lost, tmp_path: Path) -> None:
    """Each unreadable output, mistyped query or version, missing reason or unmounted root is refused in one line
    without a traceback, and nothing is recorded.
    """
    (tmp_path / "empty").mkdir()
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (a)").connection.close()
    for output, told in (
        ("relative/place", "is relative"),
        (str(tmp_path / "empty"), "contains no epoch log of a FileSink"),
        (str(tmp_path / "nowhere"), "contains no epoch log of a FileSink"),
        (f"sqlite:///{tmp_path}/none.db", "none.db does not exist"),
        (f"sqlite:///{tmp_path}/other.db", "no job has written a table there"),
        ("mysql://host/db", "not supported"),
        ("secret://env/NOT_SET", "NOT_SET"),
    ):
        refused = lost.rebuild(output=output)
        assert refused.exit_code == 2, refused.output
        assert told in refused.output.replace("\n", " "), refused.output
        assert "Traceback" not in refused.output
    for words, told in (
        (("--unfenced", "sales/totls", *REASON), "query sales/totls was not found"),
        (("--version", "sales/totals", *REASON), "is not JOB/QUERY=VERSION"),
        (("--version", "sales/totals=2", *REASON), "not a checkpoint version"),
        (("--dry-run", "Bad/Job"), "not allowed"),
        (("--end-drivers",), "a rebuild requires a reason"),
    ):
        refused = lost.rebuild(*words)
        assert (refused.exit_code, told in refused.output.replace("\n", " ")) == (2, True), refused.output
    twice = lost.rebuild("--output", lost.url, "--dry-run", "--no-driver-elsewhere")
    assert twice.exit_code == 0, twice.output
    assert not (tmp_path / "none.db").exists()
    assert not (tmp_path / "nowhere").exists()
    shutil.move(tmp_path / "cp", tmp_path / "unmounted")
    refused = lost.rebuild()
    assert (refused.exit_code, "the checkpoint root" in refused.output) == (2, True)
    (tmp_path / "cp").mkdir()
    refused = lost.rebuild()
    assert (refused.exit_code, "which is missing (check STREAMKEEPER_CHECKPOINTS)" in refused.output) == (1, True)
    assert lost.state.number == 0


def test_a_rebuild_in_a_copied_home_is_refused(lost: Lost, tmp_path: Path) -> None:
    """A rebuild is refused in a copied or moved home, because two installations with one id could write the same
    output.
    """
    (tmp_path / "home" / "home.json").write_text('{"format":1,"path":"/where/it/was"}')
    refused = lost.rebuild()
    assert (refused.exit_code, "was copied or moved" in refused.output.replace("\n", " ")) == (2, True), refused.output
    assert lost.state.number == 0
