"""Which of a plan's Python functions compute a column. The column's meaning has a number for each of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_FUNCTION = re.compile(r"\bfunc=(\d+)\b")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_CALL = "pythonud"
"""How the call of a Python function, aggregate or generator begins in a meaning."""


def functions_of(meaning: str, names: Mapping[int, str], described: Iterable[str]) -> tuple[str, ...] | None:
    """The functions in a meaning, in its order, with their names from the manifest. If two share a name, both are
    given.

    ``names``: the name for each number in meanings.
    ``described``: place, number and name of all functions. None if the number of a function is missing, as in a long
    meaning that was replaced by a digest.
    """
    bare = _QUOTED.sub("", meaning)
    numbers = [int(found) for found in _FUNCTION.findall(bare)]
    if len(numbers) < bare.count(_CALL) or not names.keys() >= set(numbers):
        return None
    return tuple(known for number in numbers for known in described if known.partition(" ")[2] == names[number])
