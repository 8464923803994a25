"""Quotes names of columns in a manifest's texts: in the lines of a schema and in expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_PLAIN_NAME = re.compile(r"\w+")
_BARE = re.compile(r"(?!`)\S+")
_ESCAPED = re.compile(r"[^\S ]|\\")
_ESCAPE = re.compile(r"\\u([0-9a-f]{4})")
_QUOTED_LINE = re.compile(r"`((?:[^`]|``)*)` (.+)")
_TYPE = (
    r"(?:(?:array|map|struct)<.*>|interval(?: [a-z]+(?: to [a-z]+)?)?|string collate \w+|\w+(?:\([^()]*\))?)"
    r"(?: not null)?"
)
_BARE_LINE = re.compile(rf"(.+?) ({_TYPE})")


def quoted_name(name: str) -> str:
    """Return a column's or field's name as expressions show it: in quotes unless it is a plain identifier."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def quoted(text: str) -> str:
    """Return the text in quotes, with ``<`` and ``>`` escaped, because rules read ``<name>`` as a field's name."""
    return json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e")


def schema_text(columns: Iterable[tuple[str, str]]) -> str:
    """Return a schema as one line per column, ``name type``; a name that contains a space is in backticks."""
    return "\n".join(f"{_in_backticks(name)} {' '.join(kind.splitlines())}" for name, kind in columns)


def read_schema_line(line: str) -> tuple[str, str]:
    """Return name and type from a line of ``schema_text``.

    Also accepts lines of earlier versions of Streamkeeper, which wrote no backticks.
    """
    if found := _QUOTED_LINE.fullmatch(line):
        name = found[1].replace("``", "`")
        return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name), found[2]
    if found := _BARE_LINE.fullmatch(line):
        return found[1], found[2]
    name, _, kind = line.partition(" ")
    return name, kind


def _in_backticks(name: str) -> str:
    if _BARE.fullmatch(name):
        return name
    escaped = _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", name)
    return f"`{escaped.replace('`', '``')}`"
