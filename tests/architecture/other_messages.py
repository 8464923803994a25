"""A pytest plugin that replaces every message of the deciding packages, and records what they decide.

It is loaded with ``-p tests.architecture.other_messages`` before the product is imported. ``STREAMKEEPER_RECORD`` names
the file that receives one line of JSON per test: ``[test id, [decision, …]]``. With ``STREAMKEEPER_OTHER_MESSAGES``
set, each string constant that reads as prose is replaced (rot13 outside of ``{placeholders}``) when its module is
imported. With the value ``all``, texts of other programs, which decisions do compare, are replaced too.
"""

from __future__ import annotations

import ast
import codecs
import enum
import functools
import importlib.abc
import importlib.machinery
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import msgspec
import pytest

PURE = ("compatibility", "lifecycle", "health", "model", "checkpoints", "sinks.kinds")
PACKAGES = tuple(f"streamkeeper.{name}." for name in PURE)
MODULES = ("streamkeeper.driver.causes", "streamkeeper.driver.faults", "streamkeeper.runners.judging_pods")
DECISIONS = {
    "compatibility.assess": {"assess", "find_changes"},
    "compatibility.rehearsals": {"rehearsal_failed"},
    "checkpoints.fsck": {"examine"},
    "lifecycle.deploy_steps": {"decide"},
    "lifecycle.fall_back": {"keep_reserve", "end_reserve", "fall_back"},
    "lifecycle.continuation": {"may_go_on"},
    "lifecycle.rebuilding": {"decide_rebuild"},
    "lifecycle.recovery": {"diagnose"},
    "lifecycle.stop_steps": {"decide_stop"},
    "lifecycle.transition_choice": {"choose_transitions"},
    "health.rules": {"find_symptoms"},
    "health.told_errors": {"fault_of"},
    "driver.causes": {"judge", "judge_text", "judge_links"},
    "model.manifests.concern": {"concern_of"},
    "model.manifests.finding": {"verdict_of"},
    "model.records.stated_deaths": {"is_stated"},
}
"""Module below ``streamkeeper`` -> functions whose results are recorded."""
NOT_OURS = {
    "compatibility.stateful_operators": {"_SYMMETRIC", "_KEPT_BY_ALL"},
    "compatibility.rehearsals": {"_SENTENCES", "_STATE_OR_OFFSETS", "_WORKER_LATE"},
    "driver.causes": {"_NO_MEMORY", "_NO_ROOM", "_NO_THREAD", "_OUT_OF_MEMORY_CODE", "_NO_BOOTSTRAP", "_TIMED_OUT"},
    "driver.faults": {"_JOB_ABORTED"},
    "health.driver_rules": {"_USED_UP"},
    "health.told_errors": {"_KINDS"},
    "model.protocol.driver_messages": {"TERMINATED"},
    "model.settings.spark_confs": {"*"},
    "model.records.stated_deaths": {"STATED"},
    "sinks.kinds.table_kind": {"_DATABASE_TOLD"},
}
"""Module -> names of texts of Spark, databases and systems, of lists of confs, and of records of the first versions."""
NOT_MESSAGES = re.compile(r"\\|^(?:group by|join |where |source |static |interval |kept |with |in session)| not null$")
"""Matches regular expressions, and words of the notation for meanings and plans; the rules compare both, so they are
not replaced.
"""

_RECORD = Path(os.environ.get("STREAMKEEPER_RECORD", os.devnull))
_REPLACES = os.environ.get("STREAMKEEPER_OTHER_MESSAGES", "")
_PROSE = re.compile(r"[A-Za-z]{2,}[,:;]? [A-Za-z({]")
_PLACEHOLDER = re.compile(r"(\{[^{}]*\})")
_COMPARING = frozenset(
    {"startswith", "endswith", "find", "partition", "rpartition", "removeprefix", "removesuffix", "split", "replace"}
    | {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub"}
)
_recorded: list[Any] = []


def other_text(text: str) -> str:
    """Return a different message of the same form: letters are moved by 13, placeholders are kept."""
    return "".join(part if part.startswith("{") else codecs.encode(part, "rot13") for part in _PLACEHOLDER.split(text))


class _Replacing(ast.NodeTransformer):
    """Replaces prose in a syntax tree, except docstrings and texts that the code compares with something."""

    def __init__(self, kept: set[str]) -> None:
        self._kept = kept

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        names = {each.id for each in node.targets if isinstance(each, ast.Name)}
        return node if names & self._kept else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return node if isinstance(node.target, ast.Name) and node.target.id in self._kept else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        return node if called in _COMPARING else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, str) or not _PROSE.search(node.value) or NOT_MESSAGES.search(node.value):
            return node
        return ast.copy_location(ast.Constant(other_text(node.value)), node)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        if not (name.startswith(PACKAGES) or name in MODULES):
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is None or not isinstance(found.loader, importlib.machinery.SourceFileLoader):
            return None
        found.loader = _Loader(found.loader.name, found.loader.path)
        return found


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        source = ast.parse(Path(self.path).read_bytes())
        kept = set() if _REPLACES == "all" else NOT_OURS.get(fullname.removeprefix("streamkeeper."), set())
        if _REPLACES and "*" not in kept:
            source = ast.fix_missing_locations(_Replacing(kept).visit(source))
        return compile(source, self.path, "exec")

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        for name in DECISIONS.get(module.__name__.removeprefix("streamkeeper."), ()):
            setattr(module, name, _recording(getattr(module, name)))


def _recording(function: FunctionType) -> Any:
    name = f"{function.__module__}.{function.__qualname__}"

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        _recorded.append([name, _decided(result)])
        return result

    @functools.wraps(function)
    def generated(*args: Any, **kwargs: Any) -> Iterator[Any]:
        for each in function(*args, **kwargs):
            _recorded.append([name, _decided(each)])
            yield each

    return generated if inspect.isgeneratorfunction(function) else called


def _decided(value: Any) -> Any:
    """Return a value without its texts: enums, numbers, words without a space, and the types of structs."""
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return "a text" if " " in value else value
    if isinstance(value, msgspec.Struct):
        fields = {name: _decided(getattr(value, name)) for name in value.__struct_fields__}
        return [type(value).__name__, fields]
    if isinstance(value, Mapping):
        return [[_decided(key), _decided(each)] for key, each in value.items()]
    if isinstance(value, tuple | list):
        return [_decided(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(json.dumps(_decided(each)) for each in value)
    return type(value).__name__


sys.meta_path.insert(0, _Finder())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Record the decisions of a test, up to the point where it fails if it asserts the text of a message."""
    _recorded.clear()
    try:
        return (yield)
    finally:
        with _RECORD.open("a") as file:
            file.write(json.dumps([item.nodeid, _recorded]) + "\n")
