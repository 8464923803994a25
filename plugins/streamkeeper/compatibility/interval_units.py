"""Normalises intervals added to a time: 12 minutes and 720 seconds are equal, but of two types. Pure."""

from __future__ import annotations

import re

from streamkeeper.compatibility.terms import outside

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
    """The positions of the types of such intervals."""
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
    """The type of a call's second argument if it is an interval."""
    inner = canonical[start:stop]
    comma = next((index for index, char in outside(inner) if char == ","), len(inner))
    length = _LENGTH.match(inner, comma)
    return [(start + length.start(1), start + length.end(1))] if length else []
