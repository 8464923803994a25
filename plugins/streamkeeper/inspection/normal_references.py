"""The normal form of references to a module's names: library code is identified by the object, and tables by the
entries that are used.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

from streamkeeper.inspection.bundle_names import BundleNames
from streamkeeper.inspection.own_code import OwnCode

MARK = "§"
"""The first character of names that stand for a ``Reference``; no name in source code begins with it."""
_SEARCHES = frozenset({"findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"})
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}
_COMPARED = (str, int, float, bytes)
_KEYS = (str, int, bytes, bool, type(None))
_COLUMNS, _MOST = (str, int, float), 2**31
_PLAIN = (str, int, float, complex, bytes, bool, type(None))


class Reference(NamedTuple):
    """The object that a marked name refers to."""

    value: Any
    """The object."""
    module: ModuleType | None
    """The module whose statements give the object its value in a new process; None if it was sent by value."""
    name: str
    """The name in that module."""
    is_used_only: bool
    """Whether only the entries of a table, or the matches of a regular expression, are used."""
    steps: tuple[tuple[ModuleType, str], ...] = ()
    """The modules and names through which the code finds the object."""


class References(ast.NodeTransformer):
    """Replaces references to library code, tables and regular expressions in one function by marked names.

    ``own``: the job's own code.
    ``bundle``: the names that the bundle defines.
    ``module``: the module of the function.
    ``bound``: the names that the function itself assigns.
    ``found``: the reference of each marked name; filled by this class.
    ``names``: the function's globals: those of the module, or copies of them.
    ``defaults_only``: whether only arguments that equal a default are dropped, and nothing else is changed.
    """

    def __init__(
        self,
        own: OwnCode,
        bundle: BundleNames,
        module: ModuleType,
        bound: Collection[str],
        found: dict[str, Reference],
        *,
        names: Mapping[str, Any] | None = None,
        defaults_only: bool = False,
    ) -> None:
        self._own = own
        self._bundle = bundle
        self._module = module
        self._bound = frozenset(bound)
        self._found = found
        self._defaults_only = defaults_only
        self._names = vars(module) if names is None else names

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Replace the table in ``TABLE[key]`` by a marked name."""
        if isinstance(node.ctx, ast.Load):
            node.value = self._used(node.value, dict)
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Replace the table in ``key in TABLE``. Turn ``LIMIT < x`` into ``x > LIMIT``.

        The result stays the same: if ``x`` has another type than ``LIMIT``, Python uses the comparison that the type of
        ``x`` defines, in both forms. In two cases the comparison is not turned. If a class may define comparisons, one
        with a float ``LIMIT`` is unchanged, because a float itself compares with an instance of a class derived from
        int. If code may see the text of a TypeError, every comparison is unchanged, because the text shows the order.
        """
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
            node.comparators = [self._used(node.comparators[0], dict)]
        turned = _TURNED.get(type(node.ops[0])) if len(node.ops) == 1 and not self._defaults_only else None
        if (
            turned
            and not self._bundle.errors
            and self._is_literal(node.left)
            and not self._is_literal(node.comparators[0])
        ):
            node = ast.Compare(left=node.comparators[0], ops=[turned()], comparators=[node.left])
        return self.generic_visit(node)

    def _is_literal(self, node: ast.expr) -> bool:
        """Whether an expression is a number or a string, or a global of the job that keeps such a literal as its
        value.
        """
        if isinstance(node, ast.Constant):
            return self._is_compared(node.value)
        steps = self._chain(node)
        module, name = self._bundle.origin(*steps[-1]) if steps else (self._module, "")
        tree = self._own.source_of(module) if steps and self._own.is_own(module) else None
        if tree is None or self._bundle.is_given(module, name):
            return False
        match self._bundle.statements(module, name):
            case [ast.Assign(targets=[ast.Name()], value=ast.Constant(value=value)) as alone]:
                return alone in tree.body and self._is_compared(value)
            case _:
                return False

    def _is_compared(self, value: object) -> bool:
        return type(value) in _COMPARED and not (type(value) is float and self._bundle.order)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace tables in ``TABLE.get(key)``, ``series.map(TABLE)`` and ``len(TABLE)``.

        Replace regular expressions in calls such as ``PATTERN.match(text)``. Drop arguments that equal a default.
        """
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr="get") as called, args=[_] | [_, _], keywords=[]):
                called.value = self._used(inner, dict)
            case ast.Call(func=ast.Attribute(value=inner, attr=name) as called) if name in _SEARCHES:
                called.value = self._used(inner, re.Pattern)
            case ast.Call(func=ast.Attribute(attr="map"), args=[inner], keywords=[]) if self._is_pandas("map"):
                node.args = [self._used(inner, dict, are_like=True)]
            case ast.Call(func=ast.Name(id="len"), args=[inner], keywords=[]) if self._is_builtin("len"):
                node.args = [self._used(inner, dict)]
            case _:
                pass
        self._without_defaults(node)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace library code such as ``hashlib.md5``."""
        return self._of_library(node) or self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace library code that was imported by name, such as ``md5``."""
        return self._of_library(node) or node

    def _is_builtin(self, name: str) -> bool:
        return name not in self._bound and name not in self._names and self._bundle.keeps(name)

    def _is_pandas(self, method: str) -> bool:
        """Whether pandas is the only library whose objects may occur here that has a method of this name that accepts a
        table.
        """
        return self._bundle.keeps(method) and method not in self._bundle.defined

    def _chain(self, node: ast.expr) -> list[tuple[ModuleType, str]] | None:
        """Return the modules and names through which code finds an object; None if one of them may get another
        value.
        """
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name not in self._bound and self._bundle.keeps(name):
                return [(self._module, name)] if name in self._names else None
            case ast.Attribute(value=inner, attr=name, ctx=ast.Load()) if self._bundle.keeps(name):
                steps = self._chain(inner)
                home = self._value(steps) if steps else None
                if not steps or not isinstance(home, ModuleType) or name not in vars(home):
                    return None
                return [*steps, (home, name)] if self._is_imported(*steps[-1]) else None
            case _:
                return None

    def _value(self, steps: Sequence[tuple[ModuleType, str]]) -> Any:
        """Return the object that these steps lead to. A function that was sent by value has copies of its globals."""
        module, name = steps[-1]
        return (self._names if len(steps) == 1 else vars(module)).get(name)

    def _is_imported(self, module: ModuleType, name: str) -> bool:
        """Whether a module gets a name only by an import. For a module of a library, this is always true."""
        return not self._own.is_own(module) or self._bundle.is_imported(module, name)

    def _of_library(self, node: ast.expr) -> ast.Name | None:
        steps = None if self._defaults_only else self._chain(node)
        if not steps:
            return None
        value = self._value(steps)
        plain = isinstance(value, FunctionType | type) or (
            isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType | None)
        )
        last = self._bundle.origin(*steps[-1], stores_only=True)
        plain = plain and value is vars(steps[-1][0]).get(steps[-1][1])
        if not plain or not self._is_imported(*last) or any(self._own.is_own(module) for module, _ in steps[1:]):
            return None
        home, name = str(value.__module__), str(value.__qualname__)
        if self._own.is_own_home(home):
            return None
        return self._marked(f"{home}.{name}", Reference(value, None, name, False, tuple(steps)))

    def _used(self, node: ast.expr, kind: type, *, are_like: bool = False) -> ast.expr:
        """Return a marked name in place of one of the job's tables or regular expressions, if only its content is used.
        Otherwise return the expression unchanged.

        ``are_like``: accept only a table with keys of one type and values of one type, because pandas creates columns
        from them.
        """
        steps = None if self._defaults_only else self._chain(node)
        if not steps:
            return node
        module, name = self._bundle.origin(*steps[-1])
        value = self._value(steps)
        known = type(value) is kind and self._own.is_own(module) and not self._bundle.equality
        if not known or (isinstance(value, dict) and not all(type(key) in _KEYS for key in value)):
            return node
        if are_like and not _are_like(value):
            return node
        by_value = value is not vars(steps[-1][0]).get(steps[-1][1])
        reference = Reference(value, None if by_value else module, name, True, tuple(steps))
        return self._marked(f"used {name}", reference) or node

    def _marked(self, label: str, reference: Reference) -> ast.Name | None:
        """Return the marked name that stands for a reference; None if another reference already has that name."""
        name = f"{MARK}{label}"
        known = self._found.setdefault(name, reference)
        return ast.Name(name, ast.Load()) if known.value is reference.value else None

    def _without_defaults(self, call: ast.Call) -> None:
        """Drop the arguments that equal the parameter's default, in a call of one of the job's plain functions."""
        steps = self._chain(call.func)
        function = self._value(steps) if steps else None
        starred = any(isinstance(each, ast.Starred) for each in call.args) or any(
            not each.arg for each in call.keywords
        )
        if not steps or type(function) is not FunctionType or starred:
            return
        module, name = self._bundle.origin(*steps[-1], stores_only=True)
        node = self._bundle.definition(module, name, function) if self._own.is_own(module) else None
        if node is None or node.args.vararg or node.args.posonlyargs or len(call.args) > len(node.args.args):
            return
        defaults = _defaults(node, function)
        call.keywords = [
            each for each in call.keywords if not self._is_default(each.value, defaults.get(str(each.arg)), module)
        ]
        while call.args and not call.keywords:
            last = node.args.args[len(call.args) - 1].arg
            if not self._is_default(call.args[-1], defaults.get(last), module):
                break
            call.args.pop()

    def _is_default(self, argument: ast.expr, default: tuple[ast.expr, Any] | None, home: ModuleType) -> bool:
        """Whether an argument is, in every process, the same object that the parameter has by default."""
        match argument, default:
            case ast.Constant(value=value), (ast.Constant(value=written), held):
                same = type(value) is type(written) is type(held) and type(value) in _PLAIN
                return same and repr(value) == repr(written) == repr(held)
            case ast.Name() | ast.Attribute(), (ast.Name(id=name), held):
                steps = self._chain(argument)
                if not steps or not self._bundle.keeps(name) or self._value(steps) is not held:
                    return False
                origin = self._bundle.origin(*steps[-1])
                bound = self._bundle.statements(*origin)
                plain = len(bound) == 1 and isinstance(bound[0], ast.Assign) and len(bound[0].targets) == 1
                alone = plain and isinstance(bound[0].targets[0], ast.Name)  # type: ignore[attr-defined]
                return alone and origin == self._bundle.origin(home, name)
            case _:
                return False


def _are_like(table: dict[Any, Any]) -> bool:
    kinds = {type(key) for key in table}, {type(value) for value in table.values()}
    plain = all(kind in _COLUMNS for of_each in kinds for kind in of_each)
    small = all(abs(number) < _MOST for number in (*table, *table.values()) if type(number) is int)
    return plain and small and all(len(of_each) == 1 for of_each in kinds)


def _defaults(node: ast.FunctionDef, function: FunctionType) -> Mapping[str, tuple[ast.expr, Any]]:
    """Return, for each parameter with a default, the default as an expression and as a value."""
    written, held = node.args.defaults, function.__defaults__ or ()
    found: dict[str, tuple[ast.expr, Any]] = {}
    if written and len(written) == len(held):
        names = [each.arg for each in node.args.args[-len(written) :]]
        found |= dict(zip(names, zip(written, held, strict=True), strict=True))
    kept = function.__kwdefaults__ or {}
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if default is not None and argument.arg in kept:
            found[argument.arg] = (default, kept[argument.arg])
    return found
