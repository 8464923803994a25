"""JSON from a checkpoint's files: what cannot be parsed is one kind of error, however it was made."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """The value; raises ValueError for what is no JSON, or is nested deeper than Python goes."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
