"""Renders a change of the schema of a parser, such as ``from_json``, or of a static table: only the fields that
differ. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from streamkeeper.compatibility.terms import Term
from streamkeeper.compatibility.user_terms import type_term

Path = tuple[str, ...]

_SCHEMA = re.compile(r"\b(?:s|dataS)chema=(?=\{)")
_TYPE = re.compile(r":(?:[a-z_]+(?:\([\d,]+\))?|(?:array|map|struct)<[^\s]*>)(?=[\s,.)\]]|$)")
"""The type of a part of an expression."""
_DECODER = json.JSONDecoder()
_MOST = 3
_FIELD = re.compile(r"(\w+) ([a-z_]+(?:\(\d+(?:,\d+)?\))?(?:<.*>)?)", re.DOTALL)
_STRUCT = re.compile(r"struct<(.*)>", re.DOTALL)
_ARRAY = re.compile(r"array<(struct<.*>)>", re.DOTALL)
_OPENS, _CLOSES = "<(", ">)"


def changed_schema(before: str, after: str) -> str:
    """Return the fields that differ if two canonical expressions differ only in schemas of parsers, and in the types
    that follow from them; empty otherwise.

    Each field is shown with its old and its new type: ``field qty: `integer` → `long```.
    """
    (left, had), (right, has) = _without_schemas(before), _without_schemas(after)
    if had == has or _TYPE.sub("", left) != _TYPE.sub("", right):
        return ""
    pairs = [(dict(_leaves(old, ())), dict(_leaves(new, ()))) for old, new in zip(had, has, strict=True)]
    return _told(pairs)


def changed_schema_of_line(before: Term, after: Term) -> str:
    """As ``changed_schema``, for two lines of a plan with the schemas of their parsers."""
    leaves = _leaf_pairs(before, after)
    if leaves is None:
        return ""
    pairs = [(_listed_fields(left), _listed_fields(right)) for left, right in leaves]
    return "" if any(None in pair for pair in pairs) else _told([(left or {}, right or {}) for left, right in pairs])


def _told(pairs: list[tuple[dict[Path, str], dict[Path, str]]]) -> str:
    shown = list(dict.fromkeys(text for pair in pairs for text in _fields_apart(*pair)))
    more = len(shown) - _MOST
    return "; ".join(shown[:_MOST]) + (f"; {more} more field{'s' if more > 1 else ''}" if more > 0 else "")


def _fields_apart(had: dict[Path, str], has: dict[Path, str]) -> Iterator[str]:
    for path in dict.fromkeys((*had, *has)):
        field, old, new = f"field {'.'.join(path)}", had.get(path), has.get(path)
        if old is None or new is None:
            yield f"{field} {'removed' if new is None else 'added'}: `{old or new}`"
        elif old != new:
            yield f"{field}: `{old}` → `{new}`"


def _without_schemas(canonical: str) -> tuple[str, list[Any]]:
    """Return an expression from which each schema is cut out, and the list of these schemas."""
    kept, schemas, position = [], [], 0
    while found := _SCHEMA.search(canonical, position):
        try:
            schema, end = _DECODER.raw_decode(canonical, found.end())
        except json.JSONDecodeError:
            break
        kept.append(canonical[position : found.end()])
        schemas.append(schema)
        position = end
    return "".join((*kept, canonical[position:])), schemas


def _leaves(kind: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the path and the type of every field that is not a struct. An array adds nothing to the path; the fields
    inside it have the type ``array<…>``.
    """
    match kind:
        case {"type": "struct", "fields": list(fields)}:
            for field in fields:
                yield from _leaves(field["type"], (*path, str(field["name"])))
        case {"type": "array", "elementType": inner}:
            for inner_path, text in _leaves(inner, path):
                yield inner_path, f"array<{text}>"
        case _:
            yield path, kind if isinstance(kind, str) else str(type_term(json.dumps(kind)))


def _leaf_pairs(before: Term, after: Term) -> list[tuple[str, str]] | None:
    """The leaves in which two terms differ; None if the terms differ in anything else."""
    if before == after:
        return []
    if before.parts and before.frame == after.frame and len(before.parts) == len(after.parts):
        below = [_leaf_pairs(*pair) for pair in zip(before.parts, after.parts, strict=True)]
        return None if None in below else [pair for pairs in below for pair in pairs or ()]
    return None if before.parts or after.parts else [(str(before), str(after))]


def _listed_fields(text: str, path: Path = ()) -> dict[Path, str] | None:
    """Map the fields in a text such as ``id string,place struct<city string>`` from path to type; None for any other
    text.
    """
    found: dict[Path, str] = {}
    for listed in _split(text):
        field = _FIELD.fullmatch(listed)
        if field is None:
            return None
        name, kind = (*path, field[1]), field[2]
        struct = _STRUCT.fullmatch(kind) or (_ARRAY.fullmatch(kind) and _STRUCT.fullmatch(kind[6:-1]))
        inner = _listed_fields(struct[1], name) if struct else {name: kind}
        if inner is None:
            return None
        found |= inner
    return found


def _split(text: str) -> list[str]:
    """Split a text at each comma that is outside of brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in _OPENS) - (char in _CLOSES)
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts
