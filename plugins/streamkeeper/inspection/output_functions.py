"""Finds which of a plan's Python functions compute a column, by the numbers in the column's canonical expression."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_FUNCTION = re.compile(r"\bfunc=(\d+)\b")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_CALL = "pythonud"
"""The first characters of a call of a Python function, aggregate or generator in a canonical expression."""


def functions_of(canonical: str, names: Mapping[int, str], described: Iterable[str]) -> tuple[str, ...] | None:
    """Return the entries of ``described`` for the functions in a canonical expression, in the expression's order.

    ``names``: the name of each function, by its number in canonical expressions.
    ``described``: entries ``place/number name``, one for each function of the plan. If two functions have the same
    name, both are returned.

    Returns None if a function's number is missing, as in a long expression that was replaced by a digest.
    """
    bare = _QUOTED.sub("", canonical)
    numbers = [int(found) for found in _FUNCTION.findall(bare)]
    if len(numbers) < bare.count(_CALL) or not names.keys() >= set(numbers):
        return None
    return tuple(known for number in numbers for known in described if known.partition(" ")[2] == names[number])
