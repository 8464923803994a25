"""Decides whether code may see the text of an error that Python raises for values of the wrong type or number.

The text reveals how the code is written: for a text ``x``, both ``5 < x`` and ``x > 5`` raise a TypeError, but with
different texts, and for ``f(*x)`` the error names the parameters that are missing.
"""

from __future__ import annotations

import ast
import builtins

_SHOWS = frozenset(
    {
        *("UnboundLocalError", "__aexit__", "__cause__", "__context__", "__exit__", "exc_info", "excepthook"),
        *("exception", "format_exc", "last_exc", "last_value", "traceback"),
    }
)
"""Names by which code sees an error that it does not catch by name, or distinguishes two kinds of NameError."""
_SHOWN = (TypeError, NameError, BaseExceptionGroup)


def shows_errors(node: ast.AST) -> bool:
    """Whether a node of a syntax tree may let the job's code read the text of a TypeError or NameError."""
    match node:
        case ast.ExceptHandler(type=kind, name=str(name)):
            return not _is_another(kind) or _is_error(name)
        case (
            ast.Name(id=name, ctx=ast.Store())
            | ast.ClassDef(name=name)
            | ast.alias(asname=str(name))
            | ast.arg(arg=name)
        ):
            return _is_error(name)
        case ast.alias(name=name):
            return name in _SHOWS or _is_error(name)
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.FunctionDef(name=name) | ast.Constant(value=str(name)):
            return name in _SHOWS
        case ast.AsyncFunctionDef(name=name) | ast.keyword(arg=str(name)):
            return name in _SHOWS
        case _:
            return False


def _is_error(name: str) -> bool:
    """Whether Python has a built-in error of this name, so that a handler that names it may catch a different error."""
    found = vars(builtins).get(name)
    return isinstance(found, type) and issubclass(found, BaseException)


def _is_another(kind: ast.expr | None) -> bool:
    """Whether a handler certainly catches neither a TypeError, nor a NameError, nor a group of errors."""
    match kind:
        case ast.Tuple(elts=parts):
            return all(map(_is_another, parts))
        case ast.Name(id=name):
            found = vars(builtins).get(name)
            return isinstance(found, type) and not any(
                issubclass(shown, found) or issubclass(found, shown) for shown in _SHOWN
            )
        case _:
            return False
