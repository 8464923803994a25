"""Writes time windows in canonical expressions as windows, because Spark's plan contains them as arithmetic on their
column.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

_BOUND = "precisetimestampconversion("
_LENGTHS = re.compile(r"(\d{4,}):long")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


def is_window(parts: Sequence[str]) -> bool:
    """Whether a struct that consists of these parts is a time window."""
    return any(part.startswith(_BOUND) for part in parts)


def window_text(parts: Sequence[str]) -> str:
    """Return a time window as text: its column, its durations in microseconds, and a digest of its definition."""
    whole = ", ".join(parts)
    column = _first_argument(_first_argument(whole.rpartition(_BOUND)[2]).removeprefix("timestampaddinterval("))
    durations = sorted(set(_LENGTHS.findall(whole)), key=int)
    shown = ", ".join([column, *durations])
    return f"window({shown}; {hashlib.sha256(whole.encode()).hexdigest()[:8]})"


def _first_argument(text: str) -> str:
    """Return the text up to the first comma or bracket outside of nested brackets and quoted texts."""
    depth, position = 0, 0
    while position < len(text):
        sign = text[position]
        if sign == '"':
            found = _QUOTED.match(text, position)
            position = found.end() - 1 if found else position
        if depth == 0 and sign in ",)":
            break
        depth += (sign in "([{") - (sign in ")]}")
        position += 1
    return text[:position]
