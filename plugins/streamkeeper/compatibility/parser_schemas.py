"""Renders a change of the schema of a parser, such as ``from_json``, or of a static table: only the fields that
differ. Pure.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streamkeeper.compatibility.terms import Term
from streamkeeper.compatibility.user_terms import type_term

Path = tuple[str, ...]
Field = tuple[Path, str]
"""The path and the type of a field."""

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
    if had == has or len(had) != len(has) or _TYPE.sub("", left) != _TYPE.sub("", right):
        return ""
    pairs = [(dict(_leaves(old, ())), dict(_leaves(new, ()))) for old, new in zip(had, has, strict=True)]
    return _first(text for pair in pairs for text in _fields_apart(*pair))


def changed_schema_of_line(before: Term, after: Term) -> str:
    """As ``changed_schema``, for two lines of a plan with the schemas of their parsers. A schema with the same fields
    in another order is shown as such.
    """
    groups = _field_groups(before, after)
    if groups is None:
        return ""
    return _first(text for had, has in groups for text in _fields_of_parser(had, has))


def _first(texts: Iterable[str]) -> str:
    """Return the first few texts without repetitions, and the number of further ones. Each is about one field."""
    shown = list(dict.fromkeys(texts))
    more = len(shown) - _MOST
    return "; ".join(shown[:_MOST]) + (f"; {more} more field{'s' if more > 1 else ''}" if more > 0 else "")


def _fields_of_parser(had: Sequence[Field], has: Sequence[Field]) -> Iterator[str]:
    """Yield how the fields of one parser differ, whatever their places; if only the places of its own fields differ,
    yield their order.
    """
    gone, came = Counter(had) - Counter(has), Counter(has) - Counter(had)
    if gone or came:
        yield from _fields_apart(dict(gone.elements()), dict(came.elements()))
    elif (before := _names(had)) != (after := _names(has)):
        yield f"order of the parsed fields: {before} → {after}"


def _names(fields: Sequence[Field]) -> str:
    names = list(dict.fromkeys(path[0] for path, _ in fields))
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(f"`{name}`" for name in names[:_MOST]) + more


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


def _field_groups(before: Term, after: Term) -> list[tuple[list[Field], list[Field]]] | None:
    """Return the fields in which two terms differ, one group per parser; None if the terms differ in anything else."""
    if before == after:
        return []
    if not before.parts or before.frame != after.frame or len(before.parts) != len(after.parts):
        fields = _listed_fields(str(before)), _listed_fields(str(after))
        return None if fields[0] is None or fields[1] is None else [(list(fields[0].items()), list(fields[1].items()))]
    had, has, below = list[Field](), list[Field](), list[tuple[list[Field], list[Field]]]()
    for left, right in zip(before.parts, after.parts, strict=True):
        old, new = _listed_fields(str(left)), _listed_fields(str(right))
        if old is not None and new is not None:
            had += [] if left == right else old.items()
            has += [] if left == right else new.items()
        elif (inner := _field_groups(left, right)) is None:
            return None
        else:
            below += inner
    return [*([(had, has)] if had or has else []), *below]


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
