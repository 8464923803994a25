"""Tests snapshots of a real checkpoint while Spark commits, compacts and cleans up as fast as it can."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from conformance.live.capturing import LiveCapture

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]


CAPTURES = 5


def test_every_snapshot_of_a_live_checkpoint_resumes_at_its_own_commit(tmp_path: Path) -> None:
    """Slow captures beside a query that keeps two batches never mix two batches, whatever Spark deletes: every snapshot
    resumes at its own commit.

    This covers state with one file per batch and state whose files are named by a commit.
    """
    command = [sys.executable, "-m", "conformance.live", "--captures", str(CAPTURES), "--layouts", "hdfs,format-2"]
    places = ["--seed", "7", "--root", str(tmp_path / "live"), "--results", str(tmp_path / "results.jsonl")]
    done = subprocess.run([*command, *places], cwd=ROOT, capture_output=True, text=True, timeout=860, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    found = [msgspec.json.decode(line, type=LiveCapture) for line in lines]
    assert [each.fault for each in found if each.fault] == []
    for layout in ("hdfs", "format-2"):
        batches = [each.batch for each in found if each.layout == layout]
        assert len(batches) == CAPTURES
        assert len(set(batches)) > 2
