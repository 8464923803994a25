"""Fields inside a source column: which of them differ, and whether any state is computed from one of those."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

Path = tuple[str, ...]

_ARRAY = "array of "
_NAME = re.compile(r"[\w$@ -]+(?=:)")
_LEAF = re.compile(r"[a-z_ ]+(?:\([\d,]+\))?")
_STEP = re.compile(r"(?:\[(?:\*|\d+:integer)?\])?\.(\w+|\"(?:[^\"\\]|\\.)*\")")
_EXPLODES = re.compile(r"\b(?:Pos)?Explode\($")
"""Generators of an array's elements: fields read from them appear as paths through the array."""
_APPLIES = re.compile(r"\barray(?:aggregate|exists|forall|transform)\($")
"""Functions over an array's elements: fields read from them appear as fields of a lambda's variable."""


def changed_fields(before: str, after: str) -> set[Path] | None:
    """Return the fields that differ between two struct types (``catalogString``) or arrays of structs.

    None if the types also differ in another part, or if a type cannot be parsed.
    """
    had, has = _fields(before), _fields(after)
    if had is None or has is None:
        return None
    return {path for path in had.keys() | has.keys() if had.get(path) != has.get(path)}


def fields_apart(before: str, after: str) -> Iterator[tuple[Path, str, str]]:
    """Yield each field that differs between two types that ``changed_fields`` compares, with its type in both. The type
    is empty on the side that lacks the field. A map is only called ``map``.
    """
    had, has = _fields(before) or {}, _fields(after) or {}
    for path in sorted(had.keys() | has.keys()):
        if had.get(path) != has.get(path):
            yield path, _short(had.get(path, "")), _short(has.get(path, ""))


def _short(kind: str) -> str:
    """Return a type without the keys and values of a map."""
    return kind.partition(" of {")[0] if " of {" in kind else kind


def come_or_go_alone(before: str, after: str) -> bool:
    """Whether every field that differs exists in only one of the struct types, and no such field is an array or inside
    one.
    """
    had, has = _fields(before) or {}, _fields(after) or {}
    differ = [path for path in had.keys() | has.keys() if had.get(path) != has.get(path)]
    return all((path in had) != (path in has) and _ARRAY not in (had | has)[path] for path in differ)


def uses_a_field(texts: Iterable[str], column: str, fields: set[Path]) -> bool:
    """Whether any expression reads the whole column, one of the given fields, or a struct that contains such a
    field.
    """
    return any(
        _overlaps(path, field) and not (applied and _is_unnamed(text, field[len(path) :]))
        for text in texts
        for path, applied in _reads(text, column)
        for field in fields
    )


def _is_unnamed(text: str, within: Path) -> bool:
    """Whether an expression names none of the steps from an array's element to a field."""
    return bool(within) and not any(step[1].strip('"') in within for step in _STEP.finditer(text))


def _reads(text: str, column: str) -> Iterator[tuple[Path, bool]]:
    """Yield the paths at which an expression reads a column; an empty path means the whole column. With each path,
    yield whether the expression only applies a function to the elements found there.
    """
    for found in re.finditer(rf"{re.escape(column)}(?!\w)", text):
        path: list[str] = []
        end = found.end()
        while step := _STEP.match(text, end):
            path.append(step[1].strip('"'))
            end = step.end()
        if not (text[end : end + 1] == ")" and _EXPLODES.search(text, 0, found.start())):
            yield tuple(path), text[end : end + 1] == "," and bool(_APPLIES.search(text, 0, found.start()))


def _overlaps(path: Path, field: Path) -> bool:
    shorter = min(len(path), len(field))
    return path[:shorter] == field[:shorter]


def _fields(kind: str) -> dict[Path, str] | None:
    """Return the type of every leaf, by path. Paths do not name the arrays that they lead through. None if the type has
    no fields or cannot be parsed.
    """
    try:
        found, rest = _read(kind.removesuffix(" not null"), ())
    except ValueError:
        return None
    return found if not rest and () not in found else None


def _read(text: str, path: Path) -> tuple[dict[Path, str], str]:
    if text.startswith("array<"):
        inner, rest = _read(text.removeprefix("array<"), path)
        return {key: f"{_ARRAY}{value}" for key, value in inner.items()}, _after(rest, ">")
    if text.startswith("map<"):
        key, rest = _read(text.removeprefix("map<"), ())
        value, rest = _read(_after(rest, ","), ())
        return {path: f"map of {key} and {value}"}, _after(rest, ">")
    if not text.startswith("struct<"):
        leaf = _LEAF.match(text)
        if leaf is None:
            raise ValueError(text)
        return {path: leaf[0]}, text[leaf.end() :]
    found: dict[Path, str] = {}
    rest = text.removeprefix("struct<")
    while not rest.startswith(">"):
        name = _NAME.match(rest)
        if name is None:
            raise ValueError(rest)
        inner, rest = _read(rest[name.end() + 1 :], (*path, name[0]))
        found |= inner
        rest = rest.removeprefix(",") if not rest.startswith(">") else rest
    return found, rest[1:]


def _after(text: str, mark: str) -> str:
    if not text.startswith(mark):
        raise ValueError(text)
    return text.removeprefix(mark)
