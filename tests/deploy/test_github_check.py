"""Tests of ``deploy/github/streamkeeper-check.yml``, whose steps are run by a real shell against a real repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamkeeper.cli.change_pages import MARKER

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy" / "github" / "streamkeeper-check.yml"
JOB = """
from streamkeeper import streaming_job

@streaming_job(name="orders")
def orders(spark, params):
    yield from ()
"""


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(FILE.read_text())["jobs"]["check"]["steps"]
    return found


def step(name: str) -> str:
    (script,) = [each["run"] for each in steps() if each["name"] == name]
    return str(script)


def run(script: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub's runner does for ``shell: bash``."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **environ}, capture_output=True, text=True, timeout=120, check=False
    )


def test_every_step_is_a_script_that_a_shell_takes(tmp_path: Path) -> None:
    """Every step is a valid shell script that uses no third-party action and has no text of a pull request inserted
    into it.
    """
    assert not [each for each in steps() if "uses" in each]
    for each in steps():
        assert subprocess.run(["bash", "-n", "-c", each["run"]], check=False).returncode == 0, each["name"]
        assert "${{" not in each["run"], each["name"]


def test_the_step_that_runs_pull_request_code_has_no_token() -> None:
    """The step that runs a pull request's code has no token; the workflow runs only for branches of the repository and
    may write only comments.
    """
    workflow = yaml.safe_load(FILE.read_text())
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    # YAML reads the key ``on`` as true.
    assert workflow[True] == {"pull_request": None}
    assert workflow["jobs"]["check"]["if"] == "github.event.pull_request.head.repo.full_name == github.repository"
    (check,) = [each for each in steps() if each.get("id") == "check"]
    assert "env" not in check
    assert "GH_TOKEN" not in workflow["jobs"]["check"]["env"]


def test_the_workflow_finds_its_comment_by_the_commands_marker_line() -> None:
    """The workflow finds its comment by the same marker line that the command writes."""
    assert re.findall(r"marker='(.*)'", step("Comment")) == [MARKER]


def test_the_merge_is_checked_out_and_its_jobs_are_checked(tmp_path: Path) -> None:
    """The workflow checks out the merge, removes files left by an earlier run, checks the changed jobs, and produces a
    comment and an exit code.
    """
    repository = tmp_path / "ann" / "jobs"
    (repository / "jobs").mkdir(parents=True)
    (repository / "jobs" / "orders.py").write_text(JOB)
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Add a job"]):
        subprocess.run([*git, *words], check=True, timeout=60)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    work = tmp_path / "work"
    (work / "checkout" / "jobs").mkdir(parents=True)
    (work / "checkout" / "jobs" / "stale.py").write_text("def (: # streaming_job")
    place = {"GITHUB_SERVER_URL": tmp_path.as_uri(), "GITHUB_REPOSITORY": "ann/jobs", "GITHUB_SHA": head}
    checked_out = run(step("Check out the merge"), work, **place)
    assert checked_out.returncode == 0, checked_out.stderr

    command = tmp_path / "bin" / "streamkeeper"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m streamkeeper.cli.main "$@"\n')
    command.chmod(0o755)
    found = run(
        step("Check the changed jobs"),
        work,
        PATH=f"{command.parent}:{os.environ['PATH']}",
        PYTHONPATH=str(ROOT / "plugins"),
        GITHUB_OUTPUT=str(tmp_path / "output"),
        STREAMKEEPER_HOME=str(tmp_path / "home"),
        STREAMKEEPER_STORE="",
        STREAMKEEPER_CHECKPOINTS="",
        STREAMKEEPER_JOBS="checkout/jobs",
    )
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "output").read_text() == "code=0\n"
    assert "**First deploys**: `orders`." in (work / "comment.md").read_text()


@pytest.mark.parametrize(("code", "fails"), [("0", 0), ("10", 0), ("11", 0), ("12", 1), ("2", 1), ("", 1)])
def test_what_was_refused_or_not_checked_fails_the_run(tmp_path: Path, code: str, fails: int) -> None:
    """The workflow fails for a refused or unchecked change (exit codes 12, 2 or none), and passes for the codes 0, 10
    and 11.
    """
    assert run(step("Fail for what was refused or not checked"), tmp_path, CODE=code).returncode == fails
