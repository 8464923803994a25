"""One query, one manifest: in one process, in two, and wherever its code lies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.processes import killed_after
from tests.inspection.queries import write_files

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]


def test_two_processes_describe_every_kind_of_query_in_equal_bytes(tmp_path: Path) -> None:
    """Other hash seeds and other places of the code make no difference."""
    write_files(tmp_path / "in", 1)
    with ExitStack() as stack:
        started = [stack.enter_context(killed_after(_start(tmp_path, seed))) for seed in ("1", "2")]
        outputs = [process.communicate(timeout=240)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0]
    one, other = (_manifests(output) for output in outputs)
    assert len(one) == 10
    assert one == other


def _manifests(output: str) -> dict[str, str]:
    pairs = [line.partition(" ") for line in output.splitlines()]
    return {name: manifest for name, _, manifest in pairs if manifest.startswith("{")}


def _start(tmp_path: Path, seed: str) -> subprocess.Popen[str]:
    root = tmp_path / f"bundle{seed}"
    (root / "tests").mkdir(parents=True)
    shutil.copytree(ROOT / "tests" / "inspection", root / "tests" / "inspection")
    path = os.pathsep.join([str(root), str(ROOT / "plugins")])
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.inspection.describe_all", str(tmp_path / "in"), str(root)]
    return subprocess.Popen(command, env=environment, cwd=root, stdout=subprocess.PIPE, text=True)
