"""Tests of ``home``: what it shows of an installation, and what a copy may do before it is declared moved or new."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streamkeeper.cli.main import app
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.backups.pruning import plan_prune, tell_run
from streamkeeper.operations.deploys.assessing import assess_candidate
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.installations import open_installation
from tests.operations.registered_job import JOB, QUERY, Registered


def run(monkeypatch: pytest.MonkeyPatch, root: Path, *words: str) -> Result:
    """Run a command in the installation under ``root``."""
    monkeypatch.setenv("STREAMKEEPER_HOME", str(root / "home"))
    monkeypatch.setenv("STREAMKEEPER_STORE", str(root / "store"))
    monkeypatch.setenv("STREAMKEEPER_CHECKPOINTS", str(root / "cp"))
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A deployed job with a snapshot, in an installation that has an id."""
    job = Registered(tmp_path / "original")
    open_installation(job.installation.store, job.installation.settings.home)
    job.take()
    return job


@pytest.fixture
def copy(job: Registered, tmp_path: Path) -> Path:
    """A copy of the whole installation, as ``cp -a`` makes it."""
    shutil.copytree(tmp_path / "original", tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


def test_a_copied_installation_allows_only_read_commands(monkeypatch: pytest.MonkeyPatch, copy: Path) -> None:
    """In a copied installation commands that only read work with a warning; every other command is refused with both
    remedies, ``home moved`` and ``home new``, and writes nothing.
    """
    shown = run(monkeypatch, copy, "home", "show")
    assert (shown.exit_code, "was copied or moved: its record names the location" in shown.output) == (1, True)
    for words in (["jobs"], ["status", JOB], ["history", JOB], ["release", "list", JOB], ["snapshot", "list"]):
        looked = run(monkeypatch, copy, *words)
        assert (looked.exit_code, "warning: the store at" in looked.output) == (0, True), looked.output
    before = sorted(copy.rglob("*"))
    for words in (
        ["deploy", JOB, "--release", "r0001"],
        ["rollback", JOB, "--reason", "because"],
        ["prune"],
        ["snapshot", "take", f"{JOB}/{QUERY}"],
        ["snapshot", "restore", f"{JOB}/{QUERY}"],
        ["release", "push", JOB],
        ["approve", JOB, "op", "--reason", "because"],
    ):
        refused = run(monkeypatch, copy, *words)
        told = " ".join(refused.output.split())
        assert refused.exit_code == 2, told
        assert "streamkeeper home moved" in told
        assert "streamkeeper home new" in told
    assert sorted(copy.rglob("*")) == before


def test_home_new_is_refused_for_the_original_installation(
    monkeypatch: pytest.MonkeyPatch, job: Registered, tmp_path: Path
) -> None:
    """``home show`` shows the original installation's id, and ``home new`` is refused for it."""
    shown = run(monkeypatch, tmp_path / "original", "home", "show")
    assert (shown.exit_code, "installation " in shown.output) == (0, True)
    assert run(monkeypatch, tmp_path / "original", "home", "new", "--reason", "by mistake").exit_code == 2


def test_a_copy_declared_new_may_only_restore_the_original_snapshots(
    monkeypatch: pytest.MonkeyPatch, job: Registered, copy: Path
) -> None:
    """A copy that was declared new does not resume, snapshot or prune the original's checkpoint; it is referred to
    ``snapshot restore``.
    """
    assert run(monkeypatch, copy, "home", "new", "--reason", "staging").exit_code == 0
    given = {"HOME": str(copy / "home"), "STORE": str(copy / "store"), "CHECKPOINTS": str(copy / "cp")}
    site = Installation.from_environment({f"STREAMKEEPER_{name}": value for name, value in given.items()})
    Deploy.open(site, "op2", DeployRequest(job=JOB, release="r0001"))
    state = site.journal(JOB, "test").state()
    found = assess_candidate(site, state, state.operations["op2"], "r0001")
    assert "checkpoint-of-another-installation" in found.refusal
    assert "snapshot restore" in run(monkeypatch, copy, "snapshot", "take", f"{JOB}/{QUERY}").output
    assert not any(str(job.directory) in line for line in tell_run(plan_prune(site)))
    assert not any("delete" in line for line in tell_run(plan_prune(site)))
