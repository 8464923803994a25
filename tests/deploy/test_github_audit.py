"""deploy/github/streamkeeper-audit.yml: what it may do, and that it audits every lock there is."""

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
    """Nobody else's action runs in it, and no text from outside becomes part of a script."""
    for each in STEPS:
        assert "uses" not in each
        assert "${{" not in each["run"]
        assert subprocess.run(["bash", "-n", "-c", each["run"]], check=False).returncode == 0, each["name"]


def test_it_reads_and_no_more_and_runs_by_itself() -> None:
    """Each week, and where a lock changes; the auditor has no token, and one version."""
    assert WORKFLOW["permissions"] == {"contents": "read"}
    # YAML reads the key ``on`` as true.
    assert set(WORKFLOW[True]) == {"schedule", "pull_request", "workflow_dispatch"}
    audit = STEPS[-1]
    assert "env" not in audit
    assert re.search(r"pip-audit==\d+\.\d+\.\d+$", audit["run"], re.MULTILINE)


def test_every_lock_is_audited_as_it_is() -> None:
    """By its hashes, nothing resolved anew; a third lock would have to be named."""
    locks = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("requirements/*.in")}
    run = STEPS[-1]["run"]
    assert set(re.findall(r"requirements/\w+\.txt", run)) == {each.replace(".in", ".txt") for each in locks}
    assert "--strict --require-hashes --disable-pip" in run
