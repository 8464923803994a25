"""Airflow walks the plugins folder and executes what it finds: it must find one file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.airflow
ROOT = Path(__file__).resolve().parents[2]

DISCOVER = """
import json, pathlib, sys, types
import airflow.sdk
from airflow import plugins_manager
folder = pathlib.Path(sys.argv[1])
before = {name: id(module) for name, module in sys.modules.items() if name in sys.stdlib_module_names}
plugins, errors = plugins_manager._get_plugins()
replaced = sorted(name for name, was in before.items() if id(sys.modules.get(name)) != was)
ran = sorted(name for name, module in sys.modules.items()
             if "." not in name and str(getattr(module, "__file__", "") or "").startswith(str(folder)))
mine = [plugin.name for plugin in plugins if str(folder) in str(getattr(plugin.source, "path", ""))
        or "streamkeeper" in str(plugin.source)]
print("SEEN" + json.dumps({"errors": errors, "plugins": mine, "replaced": replaced, "ran": ran,
    "json": json.__file__, "types": types.__file__}))
"""


def discover(plugins: Path, home: Path) -> dict[str, Any]:
    """What the real plugins manager does with a folder."""
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(plugins),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins),
    }
    done = subprocess.run(
        [sys.executable, "-c", DISCOVER, str(plugins)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = next(line for line in done.stdout.splitlines() if line.startswith("SEEN"))
    seen: dict[str, Any] = json.loads(told.removeprefix("SEEN"))
    return seen


def test_one_plugin_is_found_and_nothing_else_is_run(tmp_path: Path) -> None:
    """Exactly one plugin, no import error, no module of the package run under its bare stem, the stdlib untouched."""
    seen = discover(ROOT / "plugins", tmp_path)
    assert seen["plugins"] == ["streamkeeper"]
    assert seen["errors"] == {}
    assert seen["ran"] == ["streamkeeper_plugin"]
    assert seen["replaced"] == []


def test_without_the_ignore_file_the_trap_springs(tmp_path: Path) -> None:
    """Negative control: without .airflowignore the walk runs the package's files, and one may replace the stdlib's."""
    plugins = tmp_path / "plugins"
    shutil.copytree(ROOT / "plugins", plugins, ignore=shutil.ignore_patterns("__pycache__"))
    (plugins / ".airflowignore").unlink()
    # Executed under its bare stem it is the main program, and ends the process: the trap too, but nothing to look at.
    (plugins / "streamkeeper" / "driver" / "__main__.py").unlink()
    (plugins / "streamkeeper" / "model" / "colorsys.py").write_text("CAUGHT = True\n")
    seen = discover(plugins, tmp_path / "home")
    assert "journal" in seen["ran"]
    assert "colorsys" in seen["ran"]
