"""Tests of ``.github/workflows/ci.yml``: it runs the same script as any machine, with read permission only."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["run"]["steps"]


def test_the_workflow_runs_one_script_with_read_permission_only() -> None:
    """The last step of the workflow is ``.ci/run``; no step uses a third-party action, and the token has read
    permission only.
    """
    assert STEPS[-1]["run"] == ".ci/run"
    assert WORKFLOW["permissions"] == {"contents": "read"}
    for each in STEPS:
        assert "uses" not in each
        assert "${{" not in each["run"]
        assert subprocess.run(["bash", "-n", "-c", each["run"]], check=False).returncode == 0, each["name"]
