"""Shortens long canonical expressions, and writes data types in the form that canonical expressions use."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from streamkeeper.inspection.plan_tree import Tagged

_LONGEST = 4000
_TOLD = re.compile(
    r'source (?:\d+|"[^"]*")\.(?:\w+|"(?:[^"\\]|\\.)*")(?:(?:\[[^\]]*\])?\.(?:\w+|"(?:[^"\\]|\\.)*"))*'
    r"|in session|\?\w+|pythonudf\(|precisetimestampconversion\("
)


def shortened(canonical: str) -> str:
    """Return a meaning (a canonical expression) unchanged, or a digest of it if it is too long.

    A long meaning would be repeated wherever it is used, so that the text of a column that is rewritten in many steps
    would grow exponentially. The digest is followed by the parts of the meaning that rules search for.
    """
    if len(canonical) <= _LONGEST:
        return canonical
    shown = sorted(set(_TOLD.findall(canonical)))
    return f"long({hashlib.sha256(canonical.encode()).hexdigest()[:16]}; {'; '.join(shown)})"


def type_text(found: Any, *, names: bool = True) -> str:
    """Return a data type as text. ``names``: whether the names of its fields are included."""
    kind = found.found if isinstance(found, Tagged) else found
    if isinstance(kind, str):
        return kind
    return json.dumps(kind if names else nameless(kind), sort_keys=True, separators=(",", ":"))


def nameless(found: Any) -> Any:
    """Return a type without the names of its fields, because state keeps only their types and order."""
    match found:
        case {"type": "struct", "fields": fields}:
            return {"struct": [[nameless(field["type"]), field["nullable"]] for field in fields]}
        case dict():
            return {key: nameless(value) for key, value in found.items() if key != "metadata"}
        case _:
            return found
