"""Evaluates expressions whose text determines their value: literals, tables of literals, compiled patterns."""

from __future__ import annotations

import ast
import re
from types import ModuleType
from typing import Any

from streamkeeper.inspection.bundle_names import BundleNames


class NotConstant(Exception):
    """Raised if the value of an expression is known only when the expression runs."""


def constant_value(node: ast.expr, module: ModuleType, bundle: BundleNames) -> Any:
    """Return the value of an expression in ``module`` if the value is the same in every process. Raises NotConstant
    otherwise.
    """
    inner = lambda each: constant_value(each, module, bundle)  # noqa: E731
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=parts):
            return tuple(map(inner, parts))
        case ast.List(elts=parts):
            return list(map(inner, parts))
        case ast.Dict(keys=keys, values=values) if None not in keys:
            try:
                return {inner(key): inner(value) for key, value in zip(keys, values, strict=True)}
            except TypeError as reason:
                raise NotConstant from reason
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            flags = inner(left), inner(right)
            if all(isinstance(flag, re.RegexFlag) for flag in flags):
                return flags[0] | flags[1]
        case ast.Attribute(value=ast.Name(id=home), attr=name) if _is_re(home, module, bundle):
            found = vars(re).get(name)
            if isinstance(found, re.RegexFlag) and bundle.keeps(name):
                return found
        case ast.Call(func=ast.Attribute(value=ast.Name(id=home), attr="compile"), args=[pattern], keywords=[]):
            if _is_re(home, module, bundle):
                return _pattern(inner(pattern), 0)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=home), attr="compile"), args=[pattern, flags], keywords=[]):
            if _is_re(home, module, bundle):
                return _pattern(inner(pattern), inner(flags))
        case _:
            pass
    raise NotConstant


def _is_re(name: str, module: ModuleType, bundle: BundleNames) -> bool:
    return vars(module).get(name) is re and bundle.is_imported(module, name) and bundle.keeps("compile")


def _pattern(pattern: Any, flags: Any) -> Any:
    if not isinstance(pattern, str | bytes) or not isinstance(flags, int):
        raise NotConstant
    try:
        return re.compile(pattern, flags)
    except (re.error, ValueError, TypeError) as reason:
        raise NotConstant from reason
