"""A digest of a function in which each of the job's functions that it reaches is in normal form (``normal_code``)."""

from __future__ import annotations

import ast
import builtins
import json
import re
import sys
from re import _parser  # type: ignore[attr-defined]
from types import CodeType, FunctionType, ModuleType
from typing import Any

from streamkeeper.inspection.bundle_names import BundleNames
from streamkeeper.inspection.bytecode import instructions
from streamkeeper.inspection.constant_values import NotConstant, constant_value
from streamkeeper.inspection.inert import NAMES, TYPES, Reach
from streamkeeper.inspection.local_names import LocalNames
from streamkeeper.inspection.met import Met
from streamkeeper.inspection.normal_code import NormalCode
from streamkeeper.inspection.normal_references import MARK, Reference
from streamkeeper.inspection.own_code import OwnCode
from streamkeeper.inspection.reading import Reading

_FILES = frozenset({"_io", "genericpath", "glob", "io", "ntpath", "os", "pathlib", "posix", "posixpath", "shutil"})
"""Libraries that read and write files, and never inspect the code that calls them."""
_PATTERNS = frozenset({"flags", "pattern", "re"})
"""Attributes through which code reads the text of a regular expression."""


class NormalReading(Reading):
    """A walk over code that compares functions by their behaviour, not by how they are written."""

    def __init__(self, own: OwnCode, bundle: BundleNames, *, lifetimes: bool) -> None:
        super().__init__(own, LocalNames())
        self._bundle = bundle
        self._normal = NormalCode(own, bundle, lifetimes=lifetimes)
        self._used: dict[int, Any] = {}
        self.met: _Noting = _Noting()

    def whole(self, function: object) -> Any:
        """Return the JSON of a function and of all parts of the job that may influence it, with two more elements.

        One lists the tables that the code uses not only entry by entry but also as a whole. The other lists the classes
        whose names the code sees.
        """
        found = super().whole(function)
        classes = [called for called in self.met.called if isinstance(called[-1], list)] if self.met.classes else []
        return [*found, [self._seen.get(held) for held in self._used], classes]

    @property
    def sees_patterns(self) -> bool:
        """Whether code may read the text of a regular expression that the walk compares only by what it matches."""
        used = any(isinstance(value, re.Pattern) for value in self._used.values())
        return used and bool(_PATTERNS & self.met.noted)

    def _meet_library(self, module: str, name: str) -> None:
        foreign = self.met.foreign
        super()._meet_library(module, name)
        if module.partition(".")[0] in _FILES and self.met.reach < Reach.CODE:
            self.met.foreign = foreign

    def _effects(self) -> Any:
        modules = sorted(({module.__name__: module for module in self._own.loaded()} | self._modules).items())
        found = []
        for _, module in modules:
            tree = self._own.source_of(module)
            rewritten = self._normal.effects(tree, module) if tree else None
            code = self._own.effects(module, rewritten)
            if code is not None:
                found.append(self._code(code, vars(module), importing=True))
        return found

    def _function(self, found: FunctionType) -> Any:
        made = self._normal.of(found)
        self._kept.append(made)
        names = self.met.names
        parts = super()._function(made)
        if _names_its_class(found.__code__):
            self.met.classes, self.met.names = True, names
        # A worker gets a function by value, or imports its module. The import may fail there or give other values.
        home = sys.modules.get(str(found.__globals__.get("__name__")))
        by_value = self._own.is_own(home) and vars(home) is not found.__globals__
        return [*parts, "by value"] if by_value else parts

    def _global(self, name: str, names: dict[str, Any], importing: bool) -> tuple[Any, ModuleType | None]:
        if name.startswith(MARK):
            reference = self._normal.references[name]
            return self._referred(reference), None
        return super()._global(name, names, importing)

    def _referred(self, reference: Reference) -> Any:
        for home, step in reference.steps[1:]:
            self._attribute(home, step, False)
            self.met.name(step)
        value, module = reference.value, reference.module
        if not reference.is_used_only:
            made_in, name = str(value.__module__), str(value.__qualname__)
            if isinstance(value, FunctionType) and vars(sys.modules.get(made_in, builtins)).get(name) is value:
                self._meet_library(made_in, name)
                return ["library", [made_in, name]]
            return ["library", self.value(value)]
        self._used[id(value)] = value
        bound: list[str] = []
        if module is not None:
            self._modules[module.__name__] = module
            bound = self._bindings(module, reference.name, value)
        if isinstance(value, re.Pattern):
            return ["pattern", parsed_pattern(value), bound]
        entries = sorted(((json.dumps(self.value(key)), each) for key, each in value.items()), key=lambda pair: pair[0])
        return ["table", [[key, self.value(each)] for key, each in entries], bound]

    def _bound(self, owner: ModuleType | None, name: str, found: Any) -> Any:
        if owner is None or name.startswith("__") or not self._bundle.keeps(name):
            return super()._bound(owner, name, found)
        module, original = self._bundle.origin(owner, name)
        self._modules[owner.__name__] = owner
        self._modules[module.__name__] = module
        return [self._under(name, found), self._bindings(module, original, found)]

    def _bindings(self, module: ModuleType, name: str, found: Any) -> list[str]:
        """Return the statements that assign a global, in normal form; empty if the value is a literal."""
        tree = self._own.source_of(module)
        if tree is None or not self._bundle.keeps(name):
            return self._own.bindings(module, name)
        statements = self._bundle.statements(module, name)
        match statements:
            case [ast.Assign(targets=[ast.Name()], value=value) as alone] if alone in tree.body:
                if self._is_value_of(value, found, module) and not self._bundle.is_given(module, name):
                    return []
            case _:
                pass
        return [ast.dump(self._normal.without_defaults(each, module)) for each in statements]

    def _is_value_of(self, written: ast.expr, found: Any, module: ModuleType) -> bool:
        """Whether a global still has the value that its only statement assigns in every process."""
        try:
            made = constant_value(written, module, self._bundle)
        except NotConstant:
            return False
        return self._told(made) == self._told(found)

    def _told(self, found: Any) -> str:
        return json.dumps(Reading(self._own).value(found))


def _names_its_class(code: CodeType) -> bool:
    """Whether code is the ``__repr__`` that ``dataclass`` generates, which reads the name of its class and no other
    name.
    """
    steps = [(step.opname, step.argval) for step in instructions(code)]
    names = [number for number, (_, name) in enumerate(steps) if name == "__qualname__"]
    own = [name for name in code.co_names if name in NAMES or name in TYPES]
    made = code.co_filename == "<string>" and code.co_name == "__repr__" and own == ["__qualname__"]
    return made and len(names) == 1 and steps[names[0] - 1] == ("LOAD_ATTR", "__class__")


class _Noting(Met):
    """A record of a walk that also contains the names of all attributes and all strings.

    ``noted``: these names and strings.
    ``classes``: whether code reads the names of classes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.noted: set[str] = set()
        self.classes = False

    def name(self, name: object) -> None:
        """Record a string in code, or the name of an attribute that the code reads."""
        self.noted.add(str(name))
        super().name(name)

    def merge(self, inner: Met) -> None:
        """Add the record of another walk, which read one element of a set separately."""
        super().merge(inner)
        self.noted |= getattr(inner, "noted", set())
        self.classes |= getattr(inner, "classes", False)


def parsed_pattern(found: re.Pattern[Any]) -> Any:
    """Return a regular expression as parsed by Python, without comments and without the whitespace of a verbose
    expression.
    """
    tree = _parser.parse(found.pattern, found.flags)
    flags = found.flags & ~re.VERBOSE
    return [type(found.pattern).__name__, _plain(tree.data), flags, found.groups, sorted(found.groupindex.items())]


def _plain(found: Any) -> Any:
    if isinstance(found, list | tuple):
        return [type(found).__name__, *map(_plain, found)]
    if hasattr(found, "data") and hasattr(found, "state"):
        return ["part", *map(_plain, found.data)]
    if isinstance(found, int) and type(found).__name__ == "_NamedIntConstant":
        return str(found)
    if isinstance(found, int | str | bytes) or found is None:
        return [type(found).__name__, repr(found)]
    raise TypeError(type(found).__name__)
