"""Tests of ``deploy/github/streamkeeper-audit.yml``: its permissions, and that it audits every lock file."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / "deploy/github/streamkeeper-audit.yml").read_text())
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["audit"]["steps"]


def test_every_step_is_a_script_that_a_shell_takes() -> None:
    """Every step is a valid shell script that uses no third-party action and has no external text inserted into it."""
    for each in STEPS:
        assert "uses" not in each
        assert "${{" not in each["run"]
        assert subprocess.run(["bash", "-n", "-c", each["run"]], check=False).returncode == 0, each["name"]


def test_the_audit_has_read_permission_only_and_runs_on_a_schedule() -> None:
    """The audit has read permission only, runs on a schedule and for pull requests, passes no environment to the
    auditor, and pins its version.
    """
    assert WORKFLOW["permissions"] == {"contents": "read"}
    # YAML reads the key ``on`` as true.
    assert set(WORKFLOW[True]) == {"schedule", "pull_request", "workflow_dispatch"}
    audit = STEPS[-1]
    assert "env" not in audit
    assert re.search(r"pip-audit==\d+\.\d+\.\d+$", audit["run"], re.MULTILINE)


def test_every_lock_file_is_audited_without_resolving_dependencies() -> None:
    """Every lock file is audited by its hashes without resolving dependencies anew."""
    locks = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("requirements/*.in")}
    run = STEPS[-1]["run"]
    assert set(re.findall(r"requirements/\w+\.txt", run)) == {each.replace(".in", ".txt") for each in locks}
    assert "--strict --require-hashes --disable-pip" in run
