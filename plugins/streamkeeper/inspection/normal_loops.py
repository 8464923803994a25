"""Converts loops that only fill a new list to list comprehensions."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection

from streamkeeper.inspection.variable_uses import uses_of

KEPT = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await, ast.Lambda)
"""Kinds of expressions that are never moved."""


def comprehension_of(
    name: str, loop: ast.For, uses: Counter[tuple[str, str]], shared: Collection[str], *, errors: bool
) -> ast.ListComp | None:
    """Return the comprehension that creates the same list as a loop that only appends to the new list ``name``.

    Return None if other code uses the list before the loop's end, or uses a variable of the loop outside of the loop.

    ``uses``: the uses of names in the whole function, as ``uses_of`` counts them.
    ``shared``: the names that inner functions or ``finally`` use.
    ``errors``: whether code may see the text of a NameError, which may differ between a loop and a comprehension.
    """
    nodes = list(ast.walk(loop))
    variables = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    inner = Counter(uses_of(loop))
    alone = all(inner[use] == count for use, count in uses.items() if use[0] in variables)
    names = _names_in(loop)
    if not alone or (variables | {name}) & set(shared) or names & {"super", "__class__"}:
        return None
    outer = names - variables - {name}
    if errors and any(uses[each, "store"] + uses[each, "other"] for each in outer):
        return None
    if inner[name, "load"] != 1 or name in variables or any(isinstance(node, KEPT) for node in nodes):
        return None
    generators: list[ast.comprehension] = []
    statement: ast.stmt = loop
    waiting = set(variables)
    while True:
        # Until the loop assigns a variable, it has the value of the round before, or a global has its name.
        match statement:
            case ast.For(target=target, iter=iterable, body=[following], orelse=[]) if _is_variables(
                target
            ) and not waiting & _names_in(iterable):
                waiting -= _names_in(target)
                generators.append(ast.comprehension(target=target, iter=iterable, ifs=[], is_async=0))
            case ast.If(test=test, body=[following], orelse=[]) if not waiting & _names_in(test):
                generators[-1].ifs.append(test)
            case ast.Expr(
                ast.Call(func=ast.Attribute(value=ast.Name(id=held), attr="append"), args=[element], keywords=[])
            ) if held == name and not isinstance(element, ast.Starred):
                return ast.ListComp(elt=element, generators=generators)
            case _:
                return None
        statement = following


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _is_variables(target: ast.expr) -> bool:
    match target:
        case ast.Name():
            return True
        case ast.Tuple(elts=parts):
            return all(map(_is_variables, parts))
        case _:
            return False
