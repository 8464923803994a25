"""Proves that applying one of the job's own decorators only creates a function or an object, and changes
nothing else.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable
from types import FunctionType, GetSetDescriptorType
from typing import Any

from streamkeeper.inspection.function_source import FunctionSources
from streamkeeper.inspection.variable_uses import assigned_names

_COPIES_NAMES = (functools.wraps, functools.update_wrapper)
_METHODS = frozenset({"__init__", "__call__"})
"""Special methods that a decorator's class may define. Any other special method may run whenever the class is used."""
_OF_EVERY_CLASS = frozenset(
    {"__annotations__", "__dict__", "__doc__", "__firstlineno__", "__module__", "__static_attributes__", "__weakref__"}
)
_PLAIN = (type(None), str, int, tuple, dict, GetSetDescriptorType)
"""The types of the values that Python itself gives to these members; a value of another type was set by the class."""
_ONLY_TOLD = frozenset({"__doc__", "__module__", "__name__", "__qualname__", "__wrapped__"})
"""Special attributes that only describe an object and do not change its behaviour."""
REBINDS = frozenset(
    {
        *("setattr", "delattr", "globals", "vars", "exec", "eval", "reload", "__dict__", "__import__"),
        *("__setattr__", "__delattr__", "__defaults__", "__kwdefaults__", "__code__", "modules"),
        *("attrgetter", "methodcaller", "patch", "monkeypatch", "mock"),
        *("__builtins__", "__globals__", "f_globals", "setitem", "__setitem__"),
    }
)
"""Names with which code may assign a global or a module's attribute without naming it in the code."""


class OwnDecorators:
    """Inspects decorators of the job. A decorator that is not understood counts as one that changes something.

    ``trees``: returns the syntax of the job's modules; None for a module whose syntax is unknown.
    """

    def __init__(self, trees: Callable[[], Iterable[ast.Module | None]] = lambda: ()) -> None:
        self._sources = FunctionSources()
        self._trees = trees
        self._stored: set[str] | None = None
        self._used: set[str] | None = None

    def only_makes(self, found: object, name: str, tree: ast.Module) -> bool:
        """Whether a decorator only wraps its function, in an inner function or in an object of a plain class.

        ``found``: the decorator as it is now.
        ``name``: the decorator's name. The job must apply the decorator without a call, as in ``@name``.
        ``tree``: the module in which the decorator is applied.
        """
        if not (self._always_has(tree, name) and isinstance(found, FunctionType | type)):
            return False
        if isinstance(found, FunctionType):
            return self._wraps(found) and self._is_kept(found, found.__code__.co_name)
        return type(found) is type and self._holds(found)

    def _always_has(self, tree: ast.Module | None, name: str) -> bool:
        """Whether a name had the same value each time its module used it, which requires that no code of the job
        changes the value.
        """
        return tree is not None and times_bound(tree, name) == 1 and self._names_stored().isdisjoint((name, "*"))

    def _is_kept(self, function: FunctionType, *names: str) -> bool:
        return all(self._always_has(self._sources.tree(function), name) for name in names)

    def may_run_at_import(self, name: str, tree: ast.Module) -> bool:
        """Whether a function of this name may run while the job's modules are imported.

        This is true for special names, and for names that occur in code outside of function bodies.
        """
        if self._used is None:
            self._used = _used_at_import(each for each in self._trees() if each)
        return is_special(name) or name in self._used or name in _used_at_import([tree])

    def _names_stored(self) -> set[str]:
        """Return the attributes that the job assigns anywhere in its code, and ``*`` if it may assign any attribute."""
        if self._stored is None:
            self._stored = _names_stored(self._trees())
        return self._stored

    def _wraps(self, decorator: FunctionType) -> bool:
        """Whether a function only defines inner functions and returns one of them or its own parameter."""
        syntax = self._sources.of(decorator)
        parameter = _only_parameter(syntax)
        if not isinstance(syntax, ast.FunctionDef) or syntax.decorator_list or not parameter:
            return False
        *made, last = _without_docstring(syntax.body)
        local = {parameter, *(each.name for each in made if isinstance(each, ast.FunctionDef))}
        names = self._kept_names(decorator, local)
        inner = all(isinstance(each, ast.FunctionDef) and _only_defined(each, parameter, names) for each in made)
        return inner and isinstance(last, ast.Return) and isinstance(last.value, ast.Name) and last.value.id in local

    def _holds(self, kind: type) -> bool:
        """Whether a class has no bases, only plain methods, and an ``__init__`` that only fills the new object."""
        members = {
            name: value
            for name, value in vars(kind).items()
            if name not in _OF_EVERY_CLASS or type(value) not in _PLAIN
        }
        if kind.__bases__ != (object,) or not all(isinstance(each, FunctionType) for each in members.values()):
            return False
        if any(is_special(name) and name not in _METHODS for name in members):
            return False
        made = members.get("__init__")
        if made is None or not self._is_kept(made, kind.__name__):
            return False
        syntax = self._sources.of(made)
        if not isinstance(syntax, ast.FunctionDef) or syntax.decorator_list or len(syntax.args.args) != 2:
            return False
        new, wrapped = (each.arg for each in syntax.args.args)
        names = self._kept_names(made, {new, wrapped})
        return _is_plain(syntax.args) and all(
            _fills(each, new, wrapped, names) for each in _without_docstring(syntax.body)
        )

    def _kept_names(self, function: FunctionType, local: set[str]) -> dict[str, Any]:
        """Return the globals through which a function may refer to ``functools.wraps``, if no code changes them."""
        hidden = local.union(function.__code__.co_freevars)
        wanted = {name: value for name, value in function.__globals__.items() if value is functools or _copies(value)}
        return {name: value for name, value in wanted.items() if name not in hidden and self._is_kept(function, name)}


def times_bound(tree: ast.Module, name: str) -> int:
    """Return the number of places in a module that may give a name its value, or change the value's attributes."""
    return sum(name in bound or "*" in bound for node in ast.walk(tree) if (bound := _bound_by(node)))


def _names_stored(trees: Iterable[ast.Module | None]) -> set[str]:
    found: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree) if tree else ():
            match node:
                case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                    found.add("*" if is_special(name) and name not in _ONLY_TOLD else name)
                case (
                    ast.Constant(value=str(name)) | ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name)
                ):
                    found |= {"*"} if name in REBINDS else set()
                case _:
                    pass
        found |= set() if tree else {"*"}
    return found


def _used_at_import(trees: Iterable[ast.Module]) -> set[str]:
    """Return the names, attributes and texts in all code of modules that is outside of function bodies.

    A name that is imported under another name is included if that other name is included.
    """
    found: set[str] = set()
    renamed: dict[str, set[str]] = {}
    waiting: list[ast.AST] = list(trees)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(args=argument) | ast.AsyncFunctionDef(args=argument) | ast.Lambda(args=argument):
                waiting += [*argument.defaults, *(each for each in argument.kw_defaults if each)]
                waiting += getattr(node, "decorator_list", [])
                continue
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                found.add(name)
            case ast.alias(name=name, asname=str(other)) if name != other:
                renamed.setdefault(other, set()).add(name)
            case _:
                pass
        waiting += ast.iter_child_nodes(node)
    while more := {name for other in found & renamed.keys() for name in renamed[other]} - found:
        found |= more
    return found


def is_special(name: str) -> bool:
    """Whether a name begins and ends with two underscores, as the names that Python itself uses."""
    return name.startswith("__") and name.endswith("__")


def _bound_by(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.alias():
            return (node.asname or node.name.partition(".")[0],)
        case ast.Global() | ast.Nonlocal():
            return tuple(node.names)
        case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return (name,)
        case _:
            return assigned_names(node)


def _only_parameter(syntax: ast.AST | None) -> str:
    if not isinstance(syntax, ast.FunctionDef) or not _is_plain(syntax.args) or len(syntax.args.args) != 1:
        return ""
    return syntax.args.args[0].arg


def _is_plain(arguments: ast.arguments) -> bool:
    return not (arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if documented and len(body) > 1 else body


def _only_defined(inner: ast.FunctionDef, parameter: str, names: dict[str, Any]) -> bool:
    """Whether the definition of an inner function evaluates only names, literals and ``functools.wraps``."""
    arguments = inner.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    annotations = [each.annotation for each in every if each is not None]
    evaluated = [*arguments.defaults, *arguments.kw_defaults, *annotations, inner.returns]
    if not all(each is None or isinstance(each, ast.Name | ast.Constant) for each in evaluated):
        return False
    return all(_copies_names(each, [parameter], names) for each in inner.decorator_list)


def _fills(statement: ast.stmt, new: str, wrapped: str, names: dict[str, Any]) -> bool:
    match statement:
        case ast.Expr(value=call):
            return _copies_names(call, [new, wrapped], names)
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id=target), attr=name)],
            value=ast.Name() | ast.Constant() | ast.Dict(keys=[]),
        ):
            return target == new and (not is_special(name) or name in _ONLY_TOLD)
        case _:
            return False


def _copies_names(node: ast.expr, arguments: list[str], names: dict[str, Any]) -> bool:
    """Whether a node calls ``functools.wraps`` or ``update_wrapper`` with just these names."""
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    names_used = [each.id for each in node.args if isinstance(each, ast.Name)]
    return names_used == arguments and len(node.args) == len(names_used) and _copies(_named(node.func, names))


def _copies(found: object) -> bool:
    return any(found is each for each in _COPIES_NAMES)


def _named(node: ast.expr, names: dict[str, Any]) -> object:
    match node:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(value=ast.Name(id=module), attr=name) if names.get(module) is functools:
            return vars(functools).get(name)
        case _:
            return None
