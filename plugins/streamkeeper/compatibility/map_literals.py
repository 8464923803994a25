"""Literal maps in which a value is looked up: the order of their entries does not count. Pure."""

from __future__ import annotations

import json
import re

_LOOKUP = re.compile(r'"(?:[^"\\]|\\.)*"|\b(?:getmapvalue|elementat)\((?=\[\[)')
"""A text of the job's own, which is passed over, or the beginning of a lookup in a literal."""
_MAP = ':{"keyType":'


class _Number(str):
    """A number as it is written: 1.0 and 1.00 are two decimals."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_Number)


def in_key_order(meaning: str) -> str:
    """A meaning in which the entries of such maps are in the order of their keys.

    Spark refuses a literal map with a key twice. Where the map itself is a value its order counts: it is seen by
    ``map_keys``, ``explode`` and texts.
    """
    if "([[" not in meaning:
        return meaning
    kept: list[str] = []
    end = 0
    while (found := _LOOKUP.search(meaning, end)) is not None:
        kept.append(meaning[end : found.end()])
        end = found.end()
        if found[0].startswith('"'):
            continue
        try:
            entries, stop = _DECODER.raw_decode(meaning, end)
        except ValueError:
            continue
        told = _sorted(entries) if meaning.startswith(_MAP, stop) else None
        if told is not None:
            kept.append(told)
            end = stop
    return "".join([*kept, meaning[end:]])


def _sorted(entries: object) -> str | None:
    """``[[keys], [values]]`` by key; None where it is anything else, or a key comes twice."""
    match entries:
        case [[*keys], [*values]] if len(keys) == len(values):
            told = sorted(zip(map(_text, keys), map(_text, values), strict=True))
        case _:
            return None
    if len(dict(told)) < len(told):
        return None
    return f"[[{', '.join(key for key, _ in told)}], [{', '.join(value for _, value in told)}]]"


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
