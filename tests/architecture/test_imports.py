"""What may be imported where, checked in separate processes and by import contracts."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "plugins" / "streamkeeper"

BLOCKER = """
import importlib.abc, sys
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked here")
BLOCKED = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Blocker())
import importlib
for name in sys.argv[2:]:
    importlib.import_module(name)
"""


def modules_of(*rooms: str) -> list[str]:
    """Return the importable names of every module in the given rooms."""
    files = [path for room in rooms for path in sorted((PACKAGE / room).rglob("*.py"))]
    dotted = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in files]
    return [name.removesuffix(".__init__") for name in dotted if not name.endswith(".__main__")]


def import_with(blocked: str, names: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKER, blocked, *names],
        env={"PYTHONPATH": str(PACKAGE.parent), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_drivers_part_imports_without_airflow() -> None:
    """Every module that a driver needs can be imported without Airflow, which a cluster does not have."""
    rooms = ("driver", "inspection", "sinks", "registry", "checkpoints", "stores", "model", "compatibility")
    done = import_with("airflow", [*modules_of(*rooms), "streamkeeper.authoring.definition"])
    assert done.returncode == 0, done.stderr


def test_everything_but_inspection_and_driver_imports_without_spark() -> None:
    """Everything but ``inspection`` and ``driver`` can be imported without Spark, so Airflow's workers and the command
    line never load it.
    """
    rooms = ("operations", "registry", "runners", "sinks", "sources", "stores", "checkpoints", "cli", "lifecycle")
    done = import_with("pyspark,py4j,airflow", ["streamkeeper", *modules_of(*rooms, "model", "compatibility", "pages")])
    assert done.returncode == 0, done.stderr


def test_importing_a_blocked_package_fails() -> None:
    """Negative control: a module that imports a blocked package fails to import."""
    done = import_with("msgspec", ["streamkeeper.model.records.journal_records"])
    assert done.returncode != 0
    assert "msgspec is blocked here" in done.stderr


def test_a_jobs_definition_loads_no_kind_of_sink_or_source() -> None:
    """Importing a job's definition, as Spark's Python workers do, loads no kind of sink or source."""
    loaded = "[each for each in sys.modules if each.startswith(('streamkeeper.sinks', 'streamkeeper.sources'))]"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, streamkeeper.authoring.definition; print({loaded})"],
        env={"PYTHONPATH": str(PACKAGE.parent), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ast.literal_eval(done.stdout) == ["streamkeeper.sinks", "streamkeeper.sinks.contract"]


def lint_imports(plugins: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    """Check the named import contracts, by default all, of the package in the folder ``plugins``."""
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache", *(word for name in contracts for word in ("--contract", name))],
        cwd=ROOT,
        env={"PYTHONPATH": str(plugins), "PATH": "", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_import_contracts_hold() -> None:
    """All import contracts hold: imports between rooms go one way, pyspark and airflow stay in their rooms, and pure
    rooms do no I/O.
    """
    done = lint_imports(PACKAGE.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_kind_is_under_the_contract_of_its_port(tmp_path: Path) -> None:
    """Negative control: new kinds of sink, source and runner that other rooms import directly, past their port, break
    the contracts.
    """
    package = tmp_path / "streamkeeper"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    kinds = {
        "sink-port": ("sinks/delta.py", "driver/measuring.py"),
        "source-port": ("sources/kinesis.py", "checkpoints/fsck.py"),
        "runner-port": ("runners/emr_serverless.py", "driver/measuring.py"),
    }
    for kind, importer in [*kinds.values(), ("model/runner_kinds/emr_kind.py", "health/rules.py")]:
        (package / kind).write_text("")
        with (package / importer).open("a") as module:
            module.write(f"\nimport streamkeeper.{kind.removesuffix('.py').replace('/', '.')}\n")
    done = lint_imports(tmp_path, *kinds)
    assert "Contracts: 0 kept, 3 broken." in done.stdout, done.stdout + done.stderr
    for line in (
        "streamkeeper.driver.measuring -> streamkeeper.sinks.delta",
        "streamkeeper.checkpoints.fsck -> streamkeeper.sources.kinesis",
        "streamkeeper.driver.measuring -> streamkeeper.runners.emr_serverless",
        "streamkeeper.health.rules -> streamkeeper.model.runner_kinds.emr_kind",
    ):
        assert line in done.stdout


def test_only_its_own_tests_import_the_demo_and_only_tests_import_tests() -> None:
    """Only the demo's own tests import the demo, and only tests import ``tests``."""
    found = []
    others = [(folder, {"tests"}) for folder in ("harness", "demo", "bench", "chaos", "conformance")]
    for folder, forbidden in (("tests", {"demo"}), *others):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.is_relative_to(ROOT / "tests" / "demo"):
                continue
            imported = set(re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.MULTILINE))
            found += [f"{path.relative_to(ROOT)} imports {each}" for each in sorted(imported & forbidden)]
    assert found == []


def test_every_room_is_under_the_import_contracts() -> None:
    """The import contracts mention every room, so that a new room cannot escape them."""
    contracts = (ROOT / ".importlinter").read_text()
    rooms = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    assert [room for room in rooms if f"streamkeeper.{room}" not in contracts] == []


@pytest.mark.parametrize("path", sorted((ROOT / "dags").glob("*.py")), ids=lambda path: path.stem)
def test_dag_files_stay_thin(path: Path) -> None:
    """A DAG file has at most 200 lines and imports no heavy package at parse time."""
    text = path.read_text()
    assert len(text.splitlines()) <= 200
    heavy = {"pandas", "boto3", "pyspark", "numpy", "sqlalchemy"}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            assert heavy.isdisjoint(each.name.partition(".")[0] for each in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.module.partition(".")[0] not in heavy
