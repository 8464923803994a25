"""Conventions of the repository and of the package: folders, names, sizes, docstrings and locked requirements."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "plugins" / "streamkeeper"
TOP_LEVEL = {
    ".ci", ".github", "bench", "chaos", "conformance", "dags", "demo", "deploy", "docker", "docs", "harness", "jobs",
    "plugins", "requirements", "scripts", "tests",
}  # fmt: skip
ROOMS = {
    "authoring", "checkpoints", "cli", "compatibility", "driver", "health", "inspection", "jvm", "lifecycle", "model",
    "operations", "orchestration", "pages", "registry", "runners", "sinks", "snapshots", "sources", "stores",
    "system",
}  # fmt: skip
EMPTY_WORDS = {"base", "common", "helper", "helpers", "manager", "misc", "shared", "util", "utils"}
LONGEST_MODULE = 400
LONGEST_FUNCTION = 60


def tracked() -> list[Path]:
    """Return the files of the repository that are committed, or new and not ignored."""
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip(f"the repository's files cannot be listed: {listing.stderr.strip()}")
    return [ROOT / each for each in listing.stdout.split("\0") if each and (ROOT / each).is_file()]


def modules() -> Iterator[Path]:
    yield from sorted(PACKAGE.rglob("*.py"))


def test_every_top_level_folder_is_listed() -> None:
    """The repository has no top-level folder that is not in the list of this test, so that a new one is a decision."""
    found = {path.relative_to(ROOT).parts[0] for path in tracked() if len(path.relative_to(ROOT).parts) > 1}
    assert found <= TOP_LEVEL


def test_every_package_folder_is_a_listed_room() -> None:
    """Every folder of the package is one of the listed rooms of the design."""
    found = {path.relative_to(PACKAGE).parts[0] for path in modules() if path.parent != PACKAGE}
    assert found <= ROOMS


def test_no_module_has_a_standard_library_name() -> None:
    """No module is named like one of the standard library: Airflow's plugin walk runs files under their bare names and
    would replace that one.
    """
    plugins = [path for path in (ROOT / "plugins").rglob("*.py") if path.stem not in ("__init__", "__main__")]
    assert [path for path in plugins if path.stem in sys.stdlib_module_names] == []


def test_no_module_has_a_generic_name() -> None:
    """No module has a name without meaning, such as ``utils`` or ``common``."""
    assert [path for path in modules() if path.stem in EMPTY_WORDS] == []


def test_modules_stay_short() -> None:
    """No module of the package has more than 400 lines."""
    too_long = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules()}
    assert {name: lines for name, lines in too_long.items() if lines > LONGEST_MODULE} == {}


def test_no_two_public_classes_share_a_name() -> None:
    """No two public classes of the package share a name, so that a search or a traceback leads to one class."""
    places: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_functions_stay_short() -> None:
    """No function of the package has more than 60 lines."""
    too_long = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    too_long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name} ({lines})")
    assert too_long == []


def test_no_formatted_string_is_a_statement_of_its_own() -> None:
    """No formatted string is a statement of its own, which would be the lost second line of a message."""
    lost = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in tracked()
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.JoinedStr)
    ]
    assert lost == []


def test_every_module_says_what_it_is_responsible_for() -> None:
    """Every module of the package, also each ``__init__``, starts with a docstring."""
    silent = [path for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert [str(path.relative_to(ROOT)) for path in silent] == []


def test_every_public_class_and_function_has_a_docstring() -> None:
    """Every public class and function at the top level of a module has a docstring."""
    silent = []
    for path in modules():
        for node in ast.parse(path.read_text()).body:
            public = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_"
            if public and not ast.get_docstring(node):
                silent.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert silent == []


def test_every_test_has_a_docstring() -> None:
    """Every test has a docstring that states what it proves."""
    silent = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node):
                silent.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert silent == []


def test_requirements_are_locked_by_hash_and_name_no_index() -> None:
    """The lock files pin every package by version and hash and name no package index."""
    for name in ("runtime.txt", "dev.txt", "docs.txt"):
        text = (ROOT / "requirements" / name).read_text()
        pins = [line for line in text.splitlines() if line and line[0] not in "# "]
        assert pins
        assert all("==" in line for line in pins)
        assert text.count("--hash=sha256:") >= len(pins)
        assert "://" not in text


def test_no_two_locked_packages_share_a_folder() -> None:
    """The lock files contain pyspark but not pyspark-client, which unpacks into the same folder, and no installation
    resolves dependencies that could add it.
    """
    for kind in ("runtime", "dev"):
        lock = (ROOT / f"requirements/{kind}.txt").read_text()
        assert re.findall(r"^pyspark[\w-]*==", lock, re.MULTILINE) == ["pyspark=="]
    assert "--override requirements/overrides.txt" in (ROOT / "Makefile").read_text()
    assert re.search(r"^pyspark-client ;", (ROOT / "requirements/overrides.txt").read_text(), re.MULTILINE)
    for name in ("scripts/setup", "docker/Dockerfile"):
        installs = re.findall(r"pip install.*requirements/\w+\.txt", (ROOT / name).read_text())
        assert installs
        assert all("--no-deps" in each for each in installs), installs


def test_every_declared_dependency_is_listed_in_the_runtime_requirements() -> None:
    """Every declared dependency is listed in ``runtime.in`` itself, so that no lock has it only as a dependency of a
    different package.
    """
    asked = (ROOT / "requirements/runtime.in").read_text()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = [re.split(r"[^\w.-]", each)[0] for each in declared]
    assert [name for name in names if not re.search(rf"^{name}\b", asked, re.MULTILINE)] == []


def test_bundled_examples_import_public_names_only() -> None:
    """The bundled jobs import only from ``streamkeeper`` itself, never from one of its subpackages."""
    for path in sorted((ROOT / "jobs").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not node.module.startswith("streamkeeper."), f"{path.name} imports {node.module}"
            if isinstance(node, ast.Import):
                assert not any(each.name.startswith("streamkeeper.") for each in node.names), path.name


def test_one_module_decides_whether_a_driver_is_alive() -> None:
    """Only ``observation.py`` observes drivers through a runner; a direct call would miss the recorded end of an
    instance.
    """
    asking = [path.name for path in modules() if re.search(r"\brunner\.observe(_many)?\(", path.read_text())]
    assert asking == ["observation.py"]
