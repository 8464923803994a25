"""Tests of every option that names a location: no command turns a URL into a local path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.cli import snapshot_changes
from streamkeeper.cli.main import app
from tests.operations.registered_job import JOB, QUERY, Registered

PLACES = {"DIR", "FILE", "URL", "FILE:NAME"}
NOT_LOCAL = ("s3a://bucket/there", "hdfs://name:9000/there", "gs://bucket/there", "dbfs:/there", "s3a:/bucket/there")
JOB_FILE = "jobs/sales_totals.py:sales_totals"
SERIES = f"{JOB}/{QUERY}"

COMMANDS: dict[tuple[str, str], list[str]] = {
    ("describe", "job"): ["describe", "{url}.py:job"],
    ("check", "deployed"): ["check", "--deployed", "{url}.py:job", "--candidate", JOB_FILE, "--checkpoint", "."],
    ("check", "candidate"): ["check", "--deployed", JOB_FILE, "--candidate", "{url}.py:job", "--checkpoint", "."],
    ("check", "batch"): ["check", "--batch", "{url}"],
    ("check", "markdown"): ["check", "--changed", "--markdown", "{url}"],
    ("check", "diff_to"): ["check", "--changed", "--diff-to", "{url}"],
    ("deploy", "diff_to"): ["deploy", JOB, "--dry-run", "--diff-to", "{url}"],
    ("snapshot export", "to"): ["snapshot", "export", SERIES, "--to", "{url}"],
    ("snapshot drill", "job_file"): ["snapshot", "drill", SERIES, "--job-file", "{url}.py:job"],
}
"""Options whose location must be local."""
FOR_ITS_KIND = {"checkpoint", "directory", "store"}
"""Options that accept ``s3a://`` and ``hdfs://`` for a checkpoint, or ``s3://`` for a store; separate tests refuse
other schemes.
"""
RESTORED_TO = ("snapshot restore", "to")
"""An option that names a checkpoint's location too."""


def options(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every parameter of every command below this one, with the command's name."""
    for each in getattr(command, "commands", {}).values():
        yield from options(each, f"{name} {each.name}".strip())
    for parameter in () if hasattr(command, "commands") else command.params:
        yield name, parameter


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with a snapshot, and a working directory that contains only a link to the jobs."""
    job = Registered(tmp_path / "site")
    job.take()
    work = tmp_path / "work"
    work.mkdir()
    (work / "jobs").symlink_to(Path(__file__).resolve().parents[2] / "jobs")
    monkeypatch.chdir(work)
    monkeypatch.setenv("STREAMKEEPER_HOME", str(tmp_path / "site/home"))
    monkeypatch.setenv("STREAMKEEPER_STORE", str(tmp_path / "site/store"))
    monkeypatch.setenv("STREAMKEEPER_CHECKPOINTS", str(tmp_path / "site/cp"))
    monkeypatch.delenv("STREAMKEEPER_JOBS", raising=False)
    return work


def test_every_location_option_is_covered_by_these_tests() -> None:
    """Every option whose metavar is a location is covered by these tests, so that a new option has to be added here."""
    found = {
        (name, parameter.name or "")
        for name, parameter in options(typer.main.get_command(app))
        if getattr(parameter, "metavar", None) in PLACES
    }
    local = {option for option in found if option[1] not in FOR_ITS_KIND and option != RESTORED_TO}
    assert local == set(COMMANDS)


@pytest.mark.parametrize("url", NOT_LOCAL)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_url_for_a_local_path_is_refused_and_creates_no_file(here: Path, command: tuple[str, str], url: str) -> None:
    """A URL for an option that needs a local path is refused by its scheme with exit code 2, and no file of that name
    is created.
    """
    before = sorted(here.rglob("*"))
    result = CliRunner().invoke(app, [word.format(url=url) for word in COMMANDS[command]])
    assert result.exit_code == 2, result.output
    assert f"{url.partition(':')[0]}:// is not supported here" in " ".join(result.output.split()), result.output
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("url", [each for each in NOT_LOCAL if not each.startswith(("s3a:", "hdfs:"))])
def test_an_unsupported_url_scheme_is_refused_for_checkpoints_and_stores(here: Path, url: str) -> None:
    """A URL scheme that is supported neither for checkpoints nor for stores is refused by every command that expects
    one of them.
    """
    for words in (
        ["snapshot", "take", "--checkpoint", url, "--store", f"{here.parent}/store"],
        ["snapshot", "restore", SERIES, "--to", url],
        ["snapshot", "list", "--store", url],
        ["offsets", url],
        ["fsck", url],
        ["check", "--deployed", JOB_FILE, "--candidate", JOB_FILE, "--checkpoint", url],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 2, result.output
        assert "is not supported" in " ".join(result.output.split())
    assert [path.name for path in here.iterdir()] == ["jobs"]


@pytest.mark.parametrize("variable", ["HOME", "JOBS", "JARS"])
def test_a_variable_that_names_a_directory_takes_no_url(
    here: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """The variables STREAMKEEPER_HOME, STREAMKEEPER_JOBS and STREAMKEEPER_JARS refuse a URL."""
    monkeypatch.setenv(f"STREAMKEEPER_{variable}", "s3a://bucket/there")
    result = CliRunner().invoke(app, ["jobs"])
    assert result.exit_code == 2
    assert f"STREAMKEEPER_{variable} s3a://bucket/there" in " ".join(result.output.split())
    assert [path.name for path in here.iterdir()] == ["jobs"]


@pytest.mark.parametrize(
    ("place", "way_out"),
    [
        ("s3a://bucket", "s3a://bucket/prefix"),
        ("s3://bucket/", "s3a://bucket/prefix"),
        ("hdfs://name:9000/", "hdfs://namenode:port/path"),
        ("hdfs:///there", "hdfs://namenode:port/path"),
        ("gs://bucket/there", "s3a://bucket/prefix or hdfs://namenode:port/path"),
    ],
)
def test_checkpoints_are_in_a_directory_or_below_a_prefix(
    here: Path, monkeypatch: pytest.MonkeyPatch, place: str, way_out: str
) -> None:
    """STREAMKEEPER_CHECKPOINTS refuses a whole bucket, a whole NameNode and other schemes, and the error shows the
    accepted form.
    """
    monkeypatch.setenv("STREAMKEEPER_CHECKPOINTS", place)
    result = CliRunner().invoke(app, ["jobs"])
    assert result.exit_code == 2
    assert way_out in " ".join(result.output.split())
    assert [path.name for path in here.iterdir()] == ["jobs"]


def test_restoring_to_a_url_creates_a_local_folder_without_the_scheme_check(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the check of the scheme, a restore to ``s3a://…`` reports success and has created a
    local folder named ``s3a:``.
    """
    monkeypatch.setattr(snapshot_changes, "tree_at", lambda location: LocalTree(Path(location).absolute()))
    result = CliRunner().invoke(app, ["snapshot", "restore", SERIES, "--to", "s3a://bucket/there"])
    assert result.exit_code == 0
    assert (here / "s3a:" / "bucket" / "there" / "metadata").is_file()
