"""Tests that Airflow, which executes every file that it finds in the plugins folder, finds exactly one."""

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


HOSTS = """
import json, sys
from fastapi import FastAPI
from starlette.testclient import TestClient
from airflow import plugins_manager
from airflow.api_fastapi.app import init_plugins
app = FastAPI()
app.get("/")(lambda: "in")
init_plugins(app)
answers = {host: TestClient(app).get("/", headers={"Host": host}).status_code for host in json.loads(sys.argv[1])}
print("SEEN" + json.dumps(answers))
"""
ADMINS = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True"}
OURS, FOREIGN = ["127.0.0.1:18080", "localhost:18080"], ["evil.example:18080", "127.0.0.1.evil.example", "10.0.0.7", ""]


def discover(plugins: Path, home: Path) -> dict[str, Any]:
    """Return what the real plugins manager loads and runs from a folder."""
    return run(DISCOVER, str(plugins), plugins, home, {})


def run(script: str, argument: str, plugins: Path, home: Path, more: dict[str, str]) -> dict[str, Any]:
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(plugins),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins),
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-c", script, argument],
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
    """Airflow finds exactly one plugin without import errors, runs no module of the package under its bare file name,
    and leaves the standard library modules in place.
    """
    seen = discover(ROOT / "plugins", tmp_path)
    assert seen["plugins"] == ["streamkeeper"]
    assert seen["errors"] == {}
    assert seen["ran"] == ["streamkeeper", "streamkeeper_plugin"], "the package by its name, and no module of it"
    assert seen["replaced"] == []


def test_without_airflowignore_package_files_run_under_bare_names(tmp_path: Path) -> None:
    """Negative control: without ``.airflowignore``, Airflow runs the files of the package under their bare names,
    including one that shadows a standard library module.
    """
    plugins = tmp_path / "plugins"
    shutil.copytree(ROOT / "plugins", plugins, ignore=shutil.ignore_patterns("__pycache__"))
    (plugins / ".airflowignore").unlink()
    # Executed under its bare stem it is the main program, and ends the process: the trap too, but nothing to look at.
    (plugins / "streamkeeper" / "driver" / "__main__.py").unlink()
    (plugins / "streamkeeper" / "model" / "colorsys.py").write_text("CAUGHT = True\n")
    seen = discover(plugins, tmp_path / "home")
    assert "journal" in seen["ran"]
    assert "colorsys" in seen["ran"]


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({**ADMINS, "AIRFLOW__API__HOST": "127.0.0.1"}, 400),
        ({**ADMINS, "AIRFLOW__API__HOST": "0.0.0.0"}, 200),
        ({"AIRFLOW__API__HOST": "127.0.0.1"}, 200),
    ],
    ids=["everybody an admin on the loopback", "control: not on the loopback", "control: with a login"],
)
def test_foreign_host_names_are_refused_when_airflow_has_no_login(
    tmp_path: Path, settings: dict[str, str], refused: int
) -> None:
    """A request with a foreign host name is refused with 400 when everyone is an admin on the loopback interface; an
    Airflow with a login or on another interface accepts all host names.
    """
    answers = run(HOSTS, json.dumps([*OURS, *FOREIGN]), ROOT / "plugins", tmp_path, settings)
    assert answers == {**dict.fromkeys(OURS, 200), **dict.fromkeys(FOREIGN, refused)}
