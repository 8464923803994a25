"""A kind of runner is named only in its declaration and in its own modules; all other code reads the declarations."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamkeeper.model.runner_kinds.known_runners import RUNNERS, clusters, runner_kind
from streamkeeper.runners.container import Container, load
from streamkeeper.runners.contract import Runner

PACKAGE = Path(__file__).resolve().parents[2] / "plugins" / "streamkeeper"
OWN = ("runners/", "model/runner_kinds/")
OF_RUNNERS_ALONE = {kind.name for kind in clusters()}
"""Names that mean nothing but a kind of runner: ``local`` is also a master of Spark's."""
OTHER_MEANINGS = {"model/settings/setting_parsers.py": "a master of Spark, which is refused"}


def named_kinds(text: str) -> Iterator[str]:
    """Every place in the text of a module that names a kind of runner, as ``line: source``."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Constant(value=str(value)) if value.lower().strip(" ()") in OF_RUNNERS_ALONE:
                yield f"{node.lineno}: {value}"
            case ast.Compare() if any(map(_is_runner, (node.left, *node.comparators))):
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Match(subject=subject) if _is_runner(subject):
                yield f"{node.lineno}: match {ast.unparse(subject)}"


def _is_runner(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("runner", "drivers")


def test_no_kind_of_runner_is_named_outside_its_modules() -> None:
    """No other module names a kind of runner in a comparison, a table or a text, except for the modules in
    ``OTHER_MEANINGS``.
    """
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(OWN) and name not in OTHER_MEANINGS:
            found[name] = list(named_kinds(path.read_text()))
    assert {name: told for name, told in found.items() if told} == {}


@pytest.mark.parametrize("name", sorted(OTHER_MEANINGS))
def test_every_listed_exception_for_runner_names_is_still_needed(name: str) -> None:
    """Every module that is listed as an exception still needs it, so that no stale exception hides a later
    violation.
    """
    assert list(named_kinds((PACKAGE / name).read_text()))


@pytest.mark.parametrize(
    "text",
    [
        'found = spec.runner == "yarn"',
        "found = settings.drivers != LOCAL",
        'found = settings.drivers in ("yarn", "kubernetes")',
        'match spec.runner:\n    case "local":\n        pass',
        'makers = {"kubernetes": None}',
    ],
)
def test_every_way_of_naming_a_kind_of_runner_is_found(text: str) -> None:
    """Negative control: a kind of runner is found in comparisons, a ``match`` and a table."""
    assert list(named_kinds(text))


def test_code_may_request_the_local_runner_by_its_constant() -> None:
    """Code may request the local runner by its constant, because that compares nothing."""
    assert list(named_kinds("spec = LaunchSpec(runner=LOCAL)\nhere = runner_kind(spec.runner).on_nodes")) == []


@pytest.mark.parametrize("name", RUNNERS)
def test_a_declared_kind_has_its_code(name: str) -> None:
    """The runner and the container of every declared kind can be loaded by name, and a kind with a container declares a
    mark that identifies it.
    """
    kind = RUNNERS[name]
    assert issubclass(load(kind.runner), Runner)
    assert bool(kind.container) == bool(kind.container_mark)
    assert not kind.container or issubclass(load(kind.container), Container)
    assert (kind.place is not None) == kind.on_nodes


def test_place_records_have_a_different_file_name_for_each_runner_kind() -> None:
    """The records of places have a different file name for each kind of runner, so that none is read as one of a
    different kind.
    """
    files = [kind.place.FILE for kind in RUNNERS.values() if kind.place is not None]
    assert {"application.json", "pod.json"} <= set(files)
    assert len(set(files)) == len(files)


def test_a_driver_of_an_undeclared_runner_kind_may_be_on_any_machine() -> None:
    """For a kind of runner that is not declared, as from a later version, the driver is assumed to be on any
    machine.
    """
    assert runner_kind("of-a-later-version").on_nodes
    assert runner_kind("of-a-later-version").place is None
