"""Rewrites canonical expressions that have the same value into one form. Pure.

- ``CASE`` whose branches compare one column with different literals: at most one of them applies, so their order does
  not count.
- ``CASE WHEN x IS NOT NULL THEN x ELSE y END`` and its variants become ``coalesce(x, y)``.
- ``IF(x, y, z)`` becomes ``CASE WHEN x THEN y ELSE z END``.
- Intervals added to a time: 12 minutes and 720 seconds are equal, but have two different types.
- Literal maps that are used for lookups: the order of their entries has no effect.

The first two are applied only if the compared expression is a column. Any other expression might have another value
each time it is evaluated.
"""

from __future__ import annotations

import json
import re

from streamkeeper.compatibility.terms import Term, by_brackets, leaf, outside

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
    """Return the normal form of a call; None if the call has no other form."""
    match name, arguments.parts:
        case "casewhen", (*otherwise, Term(parts=(Term(before="branches="), Term(before="[") as listed))):
            branches = [_call(branch, "tuple2") for branch in listed.parts]
            match branches, otherwise:
                case [(condition, then)], [instead]:
                    return _coalesced(condition, then, instead)
                case _:
                    return _branches_sorted(otherwise, listed, branches)
        case "if", (condition, then, otherwise):
            branch = f"casewhen({otherwise}, {_BRANCHES}[tuple2({condition}, {then})])"
            return _coalesced(condition, then, otherwise) or by_brackets(branch)
        case _:
            return None


def _call(term: Term, name: str) -> tuple[Term, ...] | None:
    """Return the arguments of a call to ``name``; None for any other term."""
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


def _branches_sorted(otherwise: list[Term], listed: Term, branches: list[tuple[Term, ...] | None]) -> Term | None:
    compared = [_compared(branch[0]) if branch is not None and len(branch) == 2 else None for branch in branches]
    literals = [literal for each in compared if each is not None for literal in each[1]]
    columns = {each[0] if each is not None else None for each in compared}
    if len(columns) != 1 or None in columns or len(set(literals)) < len(literals):
        return None
    sorted_branches = Term(listed.before, tuple(sorted(listed.parts, key=str)), listed.between, listed.after)
    return by_brackets(f"casewhen({', '.join(map(str, [*otherwise, f'{_BRANCHES}{sorted_branches}']))})")


def _compared(condition: Term) -> tuple[str, list[str]] | None:
    """Return the column that a condition compares, and the literals that the condition accepts; None for any other
    condition.
    """
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


_ADDS = "timestampaddinterval"
_UNITS = "day|hour|minute|second"
_LENGTH = re.compile(rf", -?\d+:(interval (?:{_UNITS})(?: to (?:{_UNITS}))?)(?=$|,)")
_ANY = "interval day to second"
_NAMED = re.compile(r"\w*$")


def in_one_unit(canonical: str) -> str:
    """Return the expression with the same type for every interval that is added to a time, regardless of the unit.

    Equally long intervals of different units then compare as equal, because an addition uses only the number of
    microseconds (``DateTimeUtils.timestampAddDayTime``). Other intervals keep their types, which matter, for instance,
    if an interval is a column or is converted to text.
    """
    if _ADDS not in canonical or ":interval " not in canonical:
        return canonical
    kept: list[str] = []
    end = 0
    for start, stop in sorted(_types(canonical)):
        kept += [canonical[end:start], _ANY]
        end = stop
    return "".join([*kept, canonical[end:]])


def _types(canonical: str) -> list[tuple[int, int]]:
    """Return the start and end of the type of each interval that is added to a time."""
    found: list[tuple[int, int]] = []
    waiting: list[int] = []
    quotes = escaped = False
    for number, char in enumerate(canonical):
        if quotes:
            quotes = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quotes = True
        elif char in "([{":
            waiting.append(number)
        elif char in ")]}" and waiting:
            opened = waiting.pop()
            name = _NAMED.search(canonical, max(0, opened - len(_ADDS) - 1), opened)
            if name and name[0] == _ADDS:
                found += _of_call(canonical, opened + 1, number)
    return found


def _of_call(canonical: str, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the start and end of the type of a call's second argument if that argument is an interval; else
    nothing.
    """
    inner = canonical[start:stop]
    comma = next((index for index, char in outside(inner) if char == ","), len(inner))
    length = _LENGTH.match(inner, comma)
    return [(start + length.start(1), start + length.end(1))] if length else []


_LOOKUP = re.compile(r'"(?:[^"\\]|\\.)*"|\b(?:getmapvalue|elementat)\((?=\[\[)')
"""A quoted text of the job, which is skipped, or the beginning of a lookup in a literal map."""
_MAP = ':{"keyType":'


class _Number(str):
    """A number as it is written in the expression, because 1.0 and 1.00 are different decimals."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_Number)


def in_key_order(canonical: str) -> str:
    """Return the expression with the entries of a map literal sorted by key, unless the map itself is used as a value.

    Spark rejects a map literal with a duplicate key. If the map is used as a value, the order of its entries matters,
    because ``map_keys``, ``explode`` and conversions to text show it.
    """
    if "([[" not in canonical:
        return canonical
    kept: list[str] = []
    end = 0
    while (found := _LOOKUP.search(canonical, end)) is not None:
        kept.append(canonical[end : found.end()])
        end = found.end()
        if found[0].startswith('"'):
            continue
        try:
            entries, stop = _DECODER.raw_decode(canonical, end)
        except ValueError:
            continue
        entry_text = _entries_sorted(entries) if canonical.startswith(_MAP, stop) else None
        if entry_text is not None:
            kept.append(entry_text)
            end = stop
    return "".join([*kept, canonical[end:]])


def _entries_sorted(entries: object) -> str | None:
    """Return ``[[keys], [values]]`` sorted by key; None for any other value, or if a key is duplicated."""
    match entries:
        case [[*keys], [*values]] if len(keys) == len(values):
            pairs = sorted(zip(map(_text, keys), map(_text, values), strict=True))
        case _:
            return None
    if len(dict(pairs)) < len(pairs):
        return None
    return f"[[{', '.join(key for key, _ in pairs)}], [{', '.join(value for _, value in pairs)}]]"


def _text(value: object) -> str:
    match value:
        case _Number():
            return str(value)
        case [*parts]:
            return f"[{', '.join(map(_text, parts))}]"
        case dict():
            return "{" + ", ".join(f"{_text(key)}: {_text(each)}" for key, each in value.items()) + "}"
        case _:
            return json.dumps(value, ensure_ascii=False)
