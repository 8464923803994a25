"""Which of a plan's Python functions compute a column: its meaning has a number for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_FUNCTION = re.compile(r"\bfunc=(\d+)\b")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_CALL = "pythonud"
"""How the call of a function, an aggregate or a generator of Python begins in a meaning."""


def functions_of(meaning: str, names: Mapping[int, str], described: Iterable[str]) -> tuple[str, ...] | None:
    """Those in a meaning, in its order, as the manifest calls them; where two share a name, both.

    ``names``: number in meanings -> name; ``described``: place, number and name of all. None where one of them has no
    number: a long meaning is a digest.
    """
    bare = _QUOTED.sub("", meaning)
    numbers = [int(found) for found in _FUNCTION.findall(bare)]
    if len(numbers) < bare.count(_CALL) or not names.keys() >= set(numbers):
        return None
    return tuple(known for number in numbers for known in described if known.partition(" ")[2] == names[number])
