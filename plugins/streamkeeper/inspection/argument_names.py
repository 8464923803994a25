"""Which names of parameters the code of a bundle may use, or let a library use, to pass arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

_READS = re.compile(
    r"numba|^(register|rolling|expanding|ewm|new_class|dictConfig|InheritableThread|SimpleNamespace|keywords)($|[A-Z])"
)
"""Names of library code that passes arguments by names that the bundle's Python code does not contain, or that reads
the names of parameters: arguments of a registered function in SQL (``f(x => 1)``), ``rolling(…).apply(…, kwargs=…)``,
pandas with ``engine="numba"``.
"""
_HANDED_ON = frozenset({"cls", "engine", "func_kwargs", "kwargs", "kwds", "metaclass"})
"""Keywords with which a library gets a function's arguments, or a function that it calls by keyword."""


class ArgumentNames:
    """Filled from the syntax of every file of the bundle.

    ``passed``: keywords, and all strings; ``is_any``: whether code may pass arguments by other names; ``members``:
    names of functions that may be a class's methods.
    """

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.is_any = False
        self.members: set[str] = set()

    def meet(self, node: ast.AST) -> None:
        """Note what one node of a syntax tree shows."""
        match node:
            case ast.Constant(value=str(text)):
                self.passed.add(text)
                self.meet_name(text)
            case ast.keyword(arg=passed):
                self.passed.add(passed or "")
                self.is_any |= passed is None or passed in _HANDED_ON
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name):
                self.meet_name(name)
            case ast.ClassDef(body=body):
                self.members |= _named(each for each in body if not isinstance(each, ast.FunctionDef))
            case ast.NamedExpr(value=value) | ast.Assign(value=ast.Name() | ast.Attribute() as value):
                self.members |= _named([value])
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() if _sets_attribute(node):
                self.members |= _named([node])
            case ast.For(target=target, iter=given) if _sets_attribute(target):
                self.members |= _named([given])
            case ast.withitem(context_expr=given, optional_vars=ast.expr() as target) if _sets_attribute(target):
                self.members |= _named([given])
            case ast.Call(func=called, args=arguments):
                starred = any(isinstance(each, ast.Starred) for each in arguments)
                self.is_any |= isinstance(called, ast.Name) and called.id == "type" and (starred or len(arguments) > 1)
            case _:
                pass

    def meet_name(self, name: str) -> None:
        """Note a name or a string."""
        self.is_any |= _READS.search(name) is not None


def _sets_attribute(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) for each in ast.walk(node))


def _named(values: Iterable[ast.AST]) -> set[str]:
    """The names of functions that these expressions may give."""
    nodes = [node for value in values for node in ast.walk(value)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {"<lambda>" for node in nodes if isinstance(node, ast.Lambda)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
