"""Long meanings, and types as they are written in a meaning."""

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


def shortened(meaning: str) -> str:
    """A meaning, replaced by a digest if it is too long to be repeated wherever it is used.

    The digest contains everything that rules look for in the meaning. Without it, the text of a column that is
    rewritten in many steps would grow exponentially.
    """
    if len(meaning) <= _LONGEST:
        return meaning
    told = sorted(set(_TOLD.findall(meaning)))
    return f"long({hashlib.sha256(meaning.encode()).hexdigest()[:16]}; {'; '.join(told)})"


def type_text(found: Any, *, names: bool = True) -> str:
    """A data type as text. ``names``: whether the names of its fields are included."""
    kind = found.found if isinstance(found, Tagged) else found
    if isinstance(kind, str):
        return kind
    return json.dumps(kind if names else nameless(kind), sort_keys=True, separators=(",", ":"))


def nameless(found: Any) -> Any:
    """A type without the names of its fields. State keeps only their types and their order."""
    match found:
        case {"type": "struct", "fields": fields}:
            return {"struct": [[nameless(field["type"]), field["nullable"]] for field in fields]}
        case dict():
            return {key: nameless(value) for key, value in found.items() if key != "metadata"}
        case _:
            return found
