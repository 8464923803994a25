"""Tests that a query has the same manifest within a process, across processes and in any code directory."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.processes import killed_after
from tests.inspection.queries import write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]


def test_two_processes_describe_every_kind_of_query_in_equal_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """This process and a second one with its own JVM describe ten kinds of query in identical bytes, despite different
    hash seeds and code directories.
    """
    write_files(tmp_path / "in", 1)
    here, there = (_bundle(tmp_path / name) for name in ("here", "there"))
    with _imported_from(here):
        one = importlib.import_module("tests.inspection.describe_all").manifests(spark, tmp_path / "in", here)
    with killed_after(_start(spark, tmp_path / "in", there)) as process:
        output = process.communicate(timeout=240)[0]
    assert process.returncode == 0
    assert len(one) == 10
    assert one == _manifests(output)


def _manifests(output: str) -> dict[str, str]:
    pairs = [line.partition(" ") for line in output.splitlines()]
    return {name: manifest for name, _, manifest in pairs if manifest.startswith("{")}


def _bundle(root: Path) -> Path:
    """Return a copy of the code that builds the queries."""
    shutil.copytree(ROOT / "tests/inspection", root / "tests/inspection", ignore=shutil.ignore_patterns("__pycache__"))
    return root


@contextmanager
def _imported_from(root: Path) -> Iterator[None]:
    """Import ``tests`` from the package below ``root``."""

    def of_tests() -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] == "tests"]

    before = {name: sys.modules.pop(name) for name in of_tests()}
    path = list(sys.path)
    sys.path[:] = [str(root), *(each for each in path if Path(each or ".").resolve() != ROOT)]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for name in of_tests():
            del sys.modules[name]
        sys.modules.update(before)
        sys.path[:] = path


def _start(spark: SparkSession, folder: Path, root: Path) -> subprocess.Popen[str]:
    """Start the description in a separate process and session with the same settings."""
    confs = dict(spark.sparkContext.getConf().getAll())
    given = {key: confs[key] for key in confs if key.startswith("spark.sql.")}
    own = ("spark.master", "spark.ui.enabled", "spark.jars", "spark.driver.extraJavaOptions")
    given |= {key: confs[key] for key in own if key in confs}
    path = os.pathsep.join([str(root), str(ROOT / "plugins")])
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.inspection.describe_all", str(folder), str(root), json.dumps(given)]
    return subprocess.Popen(command, env=environment, cwd=root, stdout=subprocess.PIPE, text=True)
