"""Finds where a function uses its names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def assigned_names(node: ast.AST) -> tuple[str, ...]:
    """Return the names that a single node assigns or deletes, including those that an ``except`` or a ``match``
    assigns.
    """
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return (name,)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return (name,)
        case ast.MatchMapping(rest=str(name)):
            return (name,)
        case _:
            return ()


def seen_elsewhere(function: ast.AST) -> Iterator[str]:
    """Yield the names that inner functions or ``finally`` use.

    An inner function may run later, and ``finally`` runs after a return.
    """
    for node in ast.walk(function):
        parts: Sequence[ast.AST] = [node] if isinstance(node, _INNER) and node is not function else ()
        if isinstance(node, ast.Try | ast.TryStar):
            parts = node.finalbody
        for part in parts:
            yield from (name for name, _ in uses_of(part))


def uses_of(function: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield name and kind of each use of a name in a function, including inner functions.

    The kinds are ``load``, ``store`` (which includes a deletion), ``argument`` and ``other``, such as an import.
    """
    for node in ast.walk(function):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                yield name, "load"
            case ast.Name(id=name):
                yield name, "store"
            case ast.arg(arg=name):
                yield name, "argument"
            case ast.ExceptHandler(name=str(name)) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, "other"
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name, "other"
            case ast.alias(name=name, asname=other):
                yield (other or name).partition(".")[0], "other"
            case _:
                pass
