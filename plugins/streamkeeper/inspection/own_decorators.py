"""Proves of decorators of the job that applying one only makes a function or an object, and changes nothing else."""

from __future__ import annotations

import ast
import functools
from types import FunctionType, ModuleType
from typing import Any

from streamkeeper.inspection.function_source import FunctionSources

_COPIES_NAMES = (functools.wraps, functools.update_wrapper)
_METHODS = frozenset({"__init__", "__call__"})
"""Special methods that a class of decorators may define; others may run while the class is used."""
_OF_EVERY_CLASS = frozenset(
    {"__annotations__", "__dict__", "__doc__", "__firstlineno__", "__module__", "__static_attributes__", "__weakref__"}
)


class OwnDecorators:
    """Inspects decorators of the job. A decorator that is not understood counts as one that changes something."""

    def __init__(self) -> None:
        self._sources = FunctionSources()

    def only_makes(self, found: object) -> bool:
        """Whether a decorator only wraps its function, in an inner function or in an object of a plain class.

        ``found``: the decorator, as it stands after ``@`` without a call.
        """
        if isinstance(found, FunctionType):
            return self._wraps(found)
        return type(found) is type and self._holds(found)

    def _wraps(self, decorator: FunctionType) -> bool:
        """Whether a function only defines functions and returns one of its names."""
        syntax = self._sources.of(decorator)
        parameter = _only_parameter(syntax)
        if not isinstance(syntax, ast.FunctionDef) or syntax.decorator_list or not parameter:
            return False
        *made, last = _without_docstring(syntax.body)
        local = {parameter, *(each.name for each in made if isinstance(each, ast.FunctionDef))}
        names = {name: value for name, value in decorator.__globals__.items() if name not in local}
        inner = all(isinstance(each, ast.FunctionDef) and _only_defined(each, parameter, names) for each in made)
        return inner and isinstance(last, ast.Return) and isinstance(last.value, ast.Name) and last.value.id in local

    def _holds(self, kind: type) -> bool:
        """Whether a class has no bases, only plain methods, and an ``__init__`` that only fills the new object."""
        members = {name: value for name, value in vars(kind).items() if name not in _OF_EVERY_CLASS}
        if kind.__bases__ != (object,) or not all(isinstance(each, FunctionType) for each in members.values()):
            return False
        if any(name.startswith("__") and name.endswith("__") and name not in _METHODS for name in members):
            return False
        made = members.get("__init__")
        if made is None:
            return False
        syntax = self._sources.of(made)
        if not isinstance(syntax, ast.FunctionDef) or syntax.decorator_list or len(syntax.args.args) != 2:
            return False
        new, given = (each.arg for each in syntax.args.args)
        names = {name: value for name, value in made.__globals__.items() if name not in (new, given)}
        return _is_plain(syntax.args) and all(
            _fills(each, new, given, names) for each in _without_docstring(syntax.body)
        )


def times_bound(tree: ast.Module, name: str) -> int:
    """Return the number of places in a module that may give a name its value, or change the value's attributes."""
    return sum(_bound_by(node).count(name) for node in ast.walk(tree))


def _bound_by(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return (name,)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return (name,)
        case ast.MatchMapping(rest=str(name)):
            return (name,)
        case ast.alias():
            return (node.asname or node.name.partition(".")[0],)
        case ast.Global() | ast.Nonlocal():
            return tuple(node.names)
        case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return (name,)
        case _:
            return ()


def _only_parameter(syntax: ast.AST | None) -> str:
    if not isinstance(syntax, ast.FunctionDef) or not _is_plain(syntax.args) or len(syntax.args.args) != 1:
        return ""
    return syntax.args.args[0].arg


def _is_plain(given: ast.arguments) -> bool:
    return not (given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    told = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if told and len(body) > 1 else body


def _only_defined(inner: ast.FunctionDef, parameter: str, names: dict[str, Any]) -> bool:
    """Whether the definition of an inner function evaluates only names, literals and ``functools.wraps``."""
    given = inner.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    annotations = [each.annotation for each in every if each is not None]
    evaluated = [*given.defaults, *given.kw_defaults, *annotations, inner.returns]
    if not all(each is None or isinstance(each, ast.Name | ast.Constant) for each in evaluated):
        return False
    return all(_copies_names(each, [parameter], names) for each in inner.decorator_list)


def _fills(statement: ast.stmt, new: str, given: str, names: dict[str, Any]) -> bool:
    match statement:
        case ast.Expr(value=call):
            return _copies_names(call, [new, given], names)
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id=target))], value=ast.Name() | ast.Constant() | ast.Dict(keys=[])
        ):
            return target == new
        case _:
            return False


def _copies_names(node: ast.expr, arguments: list[str], names: dict[str, Any]) -> bool:
    """Whether a node calls ``functools.wraps`` or ``update_wrapper`` with just these names."""
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    given = [each.id for each in node.args if isinstance(each, ast.Name)]
    return given == arguments and len(node.args) == len(given) and _named(node.func, names) in _COPIES_NAMES


def _named(node: ast.expr, names: dict[str, Any]) -> object:
    match node:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(value=ast.Name(id=module), attr=name) if isinstance(names.get(module), ModuleType):
            return vars(names[module]).get(name)
        case _:
            return None
