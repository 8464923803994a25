"""Long meanings, and types, as a meaning tells them."""

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
    """A meaning that is too long to be told again wherever it is used, as a digest with all that rules look for in it.

    A column that is rewritten in many steps would be told exponentially often.
    """
    if len(meaning) <= _LONGEST:
        return meaning
    told = sorted(set(_TOLD.findall(meaning)))
    return f"long({hashlib.sha256(meaning.encode()).hexdigest()[:16]}; {'; '.join(told)})"


def type_text(found: Any, *, names: bool = True) -> str:
    """A data type as text; ``names``: with those of its fields."""
    kind = found.found if isinstance(found, Tagged) else found
    if isinstance(kind, str):
        return kind
    return json.dumps(kind if names else nameless(kind), sort_keys=True, separators=(",", ":"))


def nameless(found: Any) -> Any:
    """A type without the names of its fields: state keeps their types and order only."""
    match found:
        case {"type": "struct", "fields": fields}:
            return {"struct": [[nameless(field["type"]), field["nullable"]] for field in fields]}
        case dict():
            return {key: nameless(value) for key, value in found.items() if key != "metadata"}
        case _:
            return found
