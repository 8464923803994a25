"""The wheel in an Airflow that has no other file of this checkout: DAGs, plugin, command line and a driver.

The environment links to the locked packages, so that nothing is downloaded; of Streamkeeper it contains only the wheel.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
BUNDLES = [
    {"name": "dags-folder", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}},
    {"name": "streamkeeper", "classpath": "streamkeeper.orchestration.dag_bundle.InstalledDags", "kwargs": {}},
]

PLUGINS = """
import json
from airflow import plugins_manager
plugins, errors = plugins_manager._get_plugins()
seen = {"plugins": [str(each.source) for each in plugins if each.name == "streamkeeper"], "plugin_errors": errors}
"""
DAGS = """
import streamkeeper
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag
bundle = DagBundlesManager().get_bundle("streamkeeper")
bag = DagBag(bundle.path, bundle_path=bundle.path, bundle_name="streamkeeper")
seen |= {"package": streamkeeper.__file__, "dags": sorted(bag.dags), "import_errors": bag.import_errors}
"""
PAGE = """
import asyncio, os
import httpx
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.pages.app import make_app
from streamkeeper.pages.viewer import Viewer
app = make_app(lambda: Installation.from_environment(os.environ), lambda: Viewer(name="ada", may=lambda *asked: True))
async def ask(path):
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page") as client:
        return await client.get(path)
names = ("htmx.min.js", "uPlot.iife.min.js", "uPlot.min.css", "page.css", "page.js", "htmx.LICENSE.txt")
found = [asyncio.run(ask(f"/static/{name}")).status_code for name in names]
seen |= {"page": asyncio.run(ask("/")).text, "files": found}
"""
TELL = 'print("SEEN" + json.dumps(seen))'


class Installed:
    """An environment with the wheel installed, an empty Airflow home and a Streamkeeper home."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin = root, root / "venv" / "bin"
        venv.create(root / "venv", with_pip=False)
        self.packages = next((root / "venv" / "lib").glob("python*/site-packages"))
        for each in Path(sysconfig.get_path("purelib")).iterdir():
            if not each.name.startswith(("streamkeeper", "__editable__", "_virtualenv", "distutils-precedence")):
                (self.packages / each.name).symlink_to(each)
        for each in ("home", "airflow", "jobs"):
            (root / each).mkdir()

    def install(self, wheel: Path) -> None:
        """Install the wheel as ``pip install`` does."""
        command = [sys.executable, "-m", "pip", f"--python={self.bin / 'python'}", "install", "-q", "--no-index"]
        run([*command, "--no-deps", str(wheel)], {**os.environ})

    def run(self, *command: str, cwd: Path | None = None, **more: str) -> str:
        environ = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
            "JDK_JAVA_OPTIONS": os.environ.get("JDK_JAVA_OPTIONS", ""),
            "AIRFLOW_HOME": str(self.root / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(BUNDLES),
            "STREAMKEEPER_HOME": str(self.root / "home"),
            "STREAMKEEPER_JOBS": str(self.root / "jobs"),
            **more,
        }
        return run([str(self.bin / command[0]), *command[1:]], environ, cwd=cwd or self.root)

    def look(self, *scripts: str, **more: str) -> dict[str, Any]:
        """Return what Airflow reports about the installed wheel."""
        told = self.run("python", "-c", "\n".join([*scripts, TELL]), **more)
        seen: dict[str, Any] = json.loads(next(line[4:] for line in told.splitlines() if line.startswith("SEEN")))
        return seen


def run(command: list[str], environ: dict[str, str], *, cwd: Path | None = None) -> str:
    done = subprocess.run(command, env=environ, cwd=cwd, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    root = tmp_path_factory.mktemp("wheel")
    run([str(ROOT / "scripts" / "wheel"), str(root / "dist")], {**os.environ})
    (wheel,) = (root / "dist").iterdir()
    made = Installed(root)
    made.install(wheel)
    return made


@pytest.fixture(scope="module")
def seen(installed: Installed) -> dict[str, Any]:
    """What an Airflow without further settings reports about the installed wheel."""
    return installed.look(PLUGINS, DAGS, PAGE)


def test_a_bare_airflow_finds_dags_and_plugin(installed: Installed, seen: dict[str, Any]) -> None:
    """An Airflow with the wheel finds every DAG without an import error and one plugin by its entry point, all from the
    wheel.
    """
    assert seen["dags"] == sorted(path.stem for path in (ROOT / "dags").glob("*.py"))
    assert seen["import_errors"] == {}
    (plugin,) = seen["plugins"]
    assert plugin.startswith("streamkeeper==")
    assert seen["plugin_errors"] == {}
    assert seen["package"] == str(installed.packages / "streamkeeper" / "__init__.py")


def test_the_page_has_its_templates_and_files(seen: dict[str, Any]) -> None:
    """The fleet's page from the wheel is rendered and delivers its static files, with the vendored libraries and their
    licence.
    """
    assert "<h1>Streaming jobs</h1>" in seen["page"]
    assert set(seen["files"]) == {200}


@pytest.mark.parametrize("checkout", [True, False], ids=["the checkout's file", "control: one that does not look"])
def test_wheel_and_plugins_folder_together_load_one_plugin(installed: Installed, checkout: bool) -> None:
    """An Airflow with the wheel and the checkout's plugins folder has one plugin and no error. Negative control: a
    plugin file without that precaution causes a plugin error.
    """
    folder = installed.root / "plugins"
    folder.mkdir(exist_ok=True)
    (folder / "again.py").write_text("from streamkeeper.orchestration.plugin import StreamkeeperPlugin\n")
    seen = installed.look(PLUGINS, AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins" if checkout else folder))
    assert len(seen["plugins"]) == 1
    assert (seen["plugin_errors"] == {}) is checkout


def test_a_driver_starts_from_the_wheel(installed: Installed) -> None:
    """A dry run from the wheel starts a driver that describes the job from any directory, and registers nothing."""
    shutil.copy(ROOT / "jobs" / "sales_totals.py", installed.root / "jobs")
    (installed.root / "sales").mkdir()
    params = {"input": str(installed.root / "sales"), "warehouse": f"sqlite:///{installed.root}/warehouse.db"}
    told = installed.run("streamkeeper", "deploy", "sales_totals", "--params", json.dumps(params), "--dry-run")
    assert "verdict" in told
    assert "no job is registered yet" in installed.run("streamkeeper", "jobs")
