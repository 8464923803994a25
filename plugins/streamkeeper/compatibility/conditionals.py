"""Rewrites conditional expressions that have the same value into one form. Pure.

- ``CASE`` whose branches compare one column with different literals: at most one of them applies, so their order does
  not count.
- ``CASE WHEN x IS NOT NULL THEN x ELSE y END`` and its variants: ``coalesce(x, y)``.
- ``IF(x, y, z)``: ``CASE WHEN x THEN y ELSE z END``.

The first two hold for a column only. Any other expression might give another value each time it is evaluated.
"""

from __future__ import annotations

import re

from streamkeeper.compatibility.terms import Term, by_brackets, leaf

_BRANCHES = "branches="
_CALLED = re.compile(r"(?<![\w.])(?:casewhen|if)\Z")
_LITERAL = re.compile(r'(?:"(?:[^"\\]|\\.)*":string|-?\d+:(?:byte|short|integer|long))\Z')
"""Literals of types in which a different text means a different value."""
_COLUMN = re.compile(r"source \d+\.[\w.]+\Z")


def in_branch_order(canonical: str) -> str:
    """Return the expression with all conditionals rewritten to one form; unchanged if it cannot be parsed."""
    if "casewhen(" not in canonical and "if(" not in canonical:
        return canonical
    try:
        return str(_rewritten(by_brackets(canonical)))
    except (RecursionError, ValueError):
        return canonical


def _rewritten(term: Term) -> Term:
    parts = [_rewritten(part) for part in term.parts]
    if not term.between:
        for number in range(len(parts) - 1):
            called = _CALLED.search(parts[number].before) if not parts[number].parts else None
            if called is not None and parts[number + 1].before == "(":
                rewritten = _conditional(called[0], parts[number + 1])
                if rewritten is not None:
                    parts[number] = leaf(parts[number].before[: called.start()])
                    parts[number + 1] = rewritten
    return Term(term.before, tuple(parts), term.between, term.after)


def _conditional(name: str, arguments: Term) -> Term | None:
    """The normal form of a call; None if it has no other form."""
    match name, arguments.parts:
        case "casewhen", (*otherwise, Term(parts=(Term(before="branches="), Term(before="[") as listed))):
            branches = [_call(branch, "tuple2") for branch in listed.parts]
            match branches, otherwise:
                case [(condition, then)], [instead]:
                    return _coalesced(condition, then, instead)
                case _:
                    return _sorted(otherwise, listed, branches)
        case "if", (condition, then, otherwise):
            branch = f"casewhen({otherwise}, {_BRANCHES}[tuple2({condition}, {then})])"
            return _coalesced(condition, then, otherwise) or by_brackets(branch)
        case _:
            return None


def _call(term: Term, name: str) -> tuple[Term, ...] | None:
    """The arguments of a call to ``name``; None for any other term."""
    match term.parts:
        case (Term(before=called, parts=()), Term(before="(", parts=arguments)) if called == name and not term.between:
            return arguments
        case _:
            return None


def _coalesced(condition: Term, then: Term, otherwise: Term) -> Term | None:
    for name, value, instead in (("isnotnull", then, otherwise), ("isnull", otherwise, then)):
        if _call(condition, name) == (value,) and _COLUMN.match(str(value)):
            return by_brackets(f"coalesce({value}, {instead})")
    return None


def _sorted(otherwise: list[Term], listed: Term, branches: list[tuple[Term, ...] | None]) -> Term | None:
    compared = [_compared(branch[0]) if branch is not None and len(branch) == 2 else None for branch in branches]
    literals = [literal for each in compared if each is not None for literal in each[1]]
    columns = {each[0] if each is not None else None for each in compared}
    if len(columns) != 1 or None in columns or len(set(literals)) < len(literals):
        return None
    sorted_branches = Term(listed.before, tuple(sorted(listed.parts, key=str)), listed.between, listed.after)
    return by_brackets(f"casewhen({', '.join(map(str, [*otherwise, f'{_BRANCHES}{sorted_branches}']))})")


def _compared(condition: Term) -> tuple[str, list[str]] | None:
    """The column that a condition compares, and the literals that it accepts."""
    if (arguments := _call(condition, "equalto")) is not None and len(arguments) == 2:
        literal, column = sorted(map(str, arguments), key=lambda text: _COLUMN.match(text) is not None)
        literals = [literal]
    elif (arguments := _call(condition, "in")) is not None and len(arguments) > 1:
        column, *literals = map(str, arguments)
    else:
        return None
    if not _COLUMN.match(column) or not all(_LITERAL.match(literal) for literal in literals):
        return None
    return column, literals
