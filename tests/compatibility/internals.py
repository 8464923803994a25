"""What no finding says: notation that only Streamkeeper or Spark's optimizer knows, and one thing twice."""

from __future__ import annotations

import re

SPEAKS_INTERNALS = re.compile(
    r"#\d|µs|0{6}|\b[0-9a-f]{12,}\b|\bsource \d+\.\w+:|\w:(?:string|long|integer)\b|in session"
    r"|stateful operator 0|\w+(?:StateStore|FileSource|Relation)\w*[\[( ]|SQLSTATE|\bµ"
    r"|\b(?:lessthan|equalto|casewhen|tuple2|isnotnull|fromjson|hset)\(|~(?:Project|Filter|Aggregate)|nothing to do"
)

_WORD = re.compile(r"[a-z]{4,}")
_FILLERS = frozenset({"from", "would", "that", "what", "with", "have", "than", "were", "they", "them", "into", "each"})


def says_twice(effect: str, hint: str) -> bool:
    """Whether a hint mostly uses the words of the effect that stands above it."""
    said, again = (set(_WORD.findall(text)) - _FILLERS for text in (effect, hint))
    return bool(again) and len(said & again) > len(again) / 2
