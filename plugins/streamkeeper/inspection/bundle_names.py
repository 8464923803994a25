"""Determines which globals and attributes a bundle's files assign more than once."""

from __future__ import annotations

import ast
import builtins
import sys
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from streamkeeper.inspection.bytecode import package_of
from streamkeeper.inspection.import_effects import binding_statements
from streamkeeper.inspection.own_code import OwnCode, absolute
from streamkeeper.inspection.own_decorators import REBINDS
from streamkeeper.inspection.shown_errors import shows_errors

_REBINDS = REBINDS | {"import_module"}
_ENDS = frozenset(
    {
        *(
            "__del__",
            "finalize",
            "weakref",
            "ref",
            "ReferenceType",
            "WeakKeyDictionary",
            "WeakValueDictionary",
            "WeakSet",
        ),
        *(
            "InheritableThread",
            "nditer",
            "ExcelWriter",
            "getrefcount",
            "simplefilter",
            "filterwarnings",
            "mode.chained_assignment",
            "chained_assignment",
        ),
    }
)
"""Names by which code notices when an object is freed; pandas, for example, warns if the object from which a part was
taken still exists.
"""
_VALUES = frozenset(
    {
        *("__future__", "abc", "base64", "binascii", "bisect", "calendar", "collections", "copy", "dataclasses"),
        *("datetime", "decimal", "enum", "fractions", "functools", "hashlib", "hmac", "html", "itertools", "json"),
        *("logging", "math", "numbers", "numpy", "operator", "os", "pandas", "pyspark", "random", "re", "statistics"),
        *("streamkeeper", "string", "struct", "sys", "textwrap", "time", "types", "typing", "typing_extensions"),
        *("unicodedata", "urllib", "uuid", "zlib", "zoneinfo"),
    }
)
"""Libraries whose objects have no effect when they are freed: they write no file, and close and stop nothing."""
_EQUALITY = frozenset({"__eq__", "__hash__"})
_ORDER = frozenset({"__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__ne__", "total_ordering"})
_CLEANS_UP = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)


class _ModuleNames(NamedTuple):
    """The statements of one module that assign names."""

    statements: dict[str, list[ast.stmt]]
    """The result of ``binding_statements`` for the module."""
    assigned: dict[str, list[ast.AST]]
    """Name -> the imports and definitions, anywhere in the file, that assign it."""


class BundleNames:
    """The names that the bundle's Python files assign. Every file is read, whether or not its module is loaded.

    ``stored``: names that a function assigns as a global, and attributes that any code assigns.
    ``defined``: names of functions.
    ``unknown``: whether a global may be changed by code that does not contain the global's name.
    ``lifetimes``: whether code may notice when an object is freed.
    ``equality``: whether a class defines equality itself.
    ``order``: whether a class of the bundle defines comparisons, or a class of an imported library may define them.
    ``errors``: whether code may see the text of an error that Python raises.
    """

    def __init__(self, own: OwnCode) -> None:
        self._own = own
        self.stored: set[str] = set()
        self.defined: set[str] = set()
        self.unknown = False
        self.lifetimes = False
        self.equality = False
        self.order = False
        self.errors = False
        self._modules: dict[ModuleType, _ModuleNames] = {}
        trees = own.all_trees()
        self.unknown = trees is None or None in trees
        for tree in trees or ():
            for node in ast.walk(tree) if tree else ():
                self._meet(node)

    def _meet(self, node: ast.AST) -> None:
        self.errors |= shows_errors(node)
        match node:
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                self.stored |= set(names)
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                self.stored.add(name)
                self._meet_name(name)
            case ast.Delete(targets=targets):
                parts = [part for target in targets for part in ast.walk(target)]
                self.stored |= {part.id for part in parts if isinstance(part, ast.Name)}
            case ast.Constant(value=str(name)) | ast.Attribute(attr=name) | ast.Name(id=name):
                self._meet_name(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                self._meet_import(node)
                for alias in names:
                    for part in alias.name.split("."):
                        self._meet_name(part)
                    self.unknown |= alias.name == "*"
            case ast.Call(func=ast.Name(id="getattr"), args=[_, key, *_]) if not isinstance(key, ast.Constant):
                self.unknown = True
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self.defined.add(name)
                self._meet_name(name)
                self.equality |= name in _EQUALITY
                inner = list(ast.walk(node))
                yields = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in inner)
                self.lifetimes |= yields and any(isinstance(each, _CLEANS_UP) for each in inner)
            case _:
                pass

    def _meet_import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.ImportFrom) and node.level:
            return
        homes = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        tops = {home.partition(".")[0] for home in homes}
        foreign = any(top not in _VALUES and not self._own.imports(top) for top in tops)
        self.lifetimes |= foreign
        self.order |= foreign

    def _meet_name(self, name: str) -> None:
        self.unknown |= name in _REBINDS
        self.lifetimes |= name in _ENDS
        self.equality |= name in _EQUALITY
        self.order |= name in _ORDER

    def keeps(self, name: str) -> bool:
        """Whether, according to the bundle's code, a global or an attribute of that name is never assigned a second
        value.
        """
        return not self.unknown and name not in self.stored

    def always_has(self, names: dict[str, Any], name: str) -> bool:
        """Whether a global of a module, or a builtin name, always exists and is always the same."""
        return self.keeps(name) and (name in names or hasattr(builtins, name))

    def origin(self, module: ModuleType, name: str, *, stores_only: bool = False) -> tuple[ModuleType, str]:
        """Return the module and the name in which a global is first assigned, following ``from … import`` statements at
        the top level of modules.

        The search stops at a module that changes the global. ``stores_only``: whether only an assignment counts as a
        change. If not, a call of one of the object's methods counts too. Pass True for a function, because no such call
        can change a function.
        """
        seen: set[tuple[str, str]] = set()
        while self._own.is_own(module) and (module.__name__, name) not in seen:
            seen.add((module.__name__, name))
            changed = self._stores(module, name) if stores_only else self.statements(module, name)
            imported = self._import_of(module, name)
            if imported is None or changed or not self.keeps(name):
                break
            home, original = sys.modules.get(imported[0]), imported[1]
            if not isinstance(home, ModuleType) or not self._own.is_own(home) or not self.keeps(original):
                break
            if vars(home).get(original, home) is not vars(module).get(name, module):
                break
            module, name = home, original
        return module, name

    def is_imported(self, module: ModuleType, name: str) -> bool:
        """Whether a global gets its value only from a single import at the module's top level."""
        return self.keeps(name) and self._import_of(module, name) is not None and not self._stores(module, name)

    def is_given(self, module: ModuleType, name: str) -> bool:
        """Whether an import or a definition anywhere in a module assigns a name. Also True if the module's source is
        unknown.
        """
        return self._own.source_of(module) is None or name in self._names_of(module).assigned

    def _import_of(self, module: ModuleType, name: str) -> tuple[str, str] | None:
        """Return the module and name from which a global is imported; None for several imports."""
        tree, assigned = self._own.source_of(module), self._names_of(module).assigned.get(name, [])
        if tree is None or len(assigned) != 1 or assigned[0] not in tree.body:
            return None
        match assigned[0]:
            case ast.Import():
                return "", name
            case ast.ImportFrom(module=home, names=names, level=level):
                found = [alias.name for alias in names if (alias.asname or alias.name) == name]
                return (absolute(home or "", level, package_of(vars(module))), found[0]) if len(found) == 1 else None
            case _:
                return None

    def _stores(self, module: ModuleType, name: str) -> bool:
        """Whether a module assigns a global at its top level."""
        inner = (node for each in self.statements(module, name) for node in ast.walk(each))
        return any(isinstance(node, ast.Name) and node.id == name and not _loads(node) for node in inner)

    def statements(self, module: ModuleType, name: str) -> list[ast.stmt]:
        """Return the statements at a module's top level that assign a global or change its content."""
        return self._names_of(module).statements.get(name, [])

    def _names_of(self, module: ModuleType) -> _ModuleNames:
        """Return the names that a module assigns. Each module is read only once."""
        if module not in self._modules:
            self._modules[module] = _read_names(self._own.source_of(module))
        return self._modules[module]

    def definition(self, module: ModuleType, name: str, found: FunctionType) -> ast.FunctionDef | None:
        """Return the ``def`` statement of a module's function. Return None if the ``def`` has a decorator, or if
        another statement may assign the function's name.
        """
        tree = self._own.source_of(module)
        if tree is None or not self.keeps(name) or self._stores(module, name) or found.__globals__ is not vars(module):
            return None
        match self._names_of(module).assigned.get(name, []):
            case [ast.FunctionDef(decorator_list=[]) as node] if node in tree.body and found.__name__ == name:
                return node
            case _:
                return None


def _loads(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _read_names(tree: ast.Module | None) -> _ModuleNames:
    assigned: dict[str, list[ast.AST]] = {}
    for node in ast.walk(tree) if tree else ():
        for name in _gives(node):
            assigned.setdefault(name, []).append(node)
    return _ModuleNames(binding_statements(tree), assigned)


def _gives(node: ast.AST) -> set[str]:
    """Return the names that a statement assigns by an import or a definition."""
    match node:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {alias.asname or alias.name.partition(".")[0] for alias in names}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case _:
            return set()
