"""Normalises literal maps that are used for lookups: the order of their entries has no effect. Pure."""

from __future__ import annotations

import json
import re

_LOOKUP = re.compile(r'"(?:[^"\\]|\\.)*"|\b(?:getmapvalue|elementat)\((?=\[\[)')
"""A quoted text of the job, which is skipped, or the beginning of a lookup in a literal map."""
_MAP = ':{"keyType":'


class _Number(str):
    """A number as written: 1.0 and 1.00 are different decimals."""

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
        entry_text = _sorted(entries) if canonical.startswith(_MAP, stop) else None
        if entry_text is not None:
            kept.append(entry_text)
            end = stop
    return "".join([*kept, canonical[end:]])


def _sorted(entries: object) -> str | None:
    """``[[keys], [values]]`` sorted by key; None for any other text, or if a key is duplicated."""
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
