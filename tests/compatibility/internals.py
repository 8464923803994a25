"""Checks of a finding's text: it contains no notation that only Streamkeeper or Spark's optimizer uses, and its hint
does not repeat its effect.
"""

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
    """Return whether a hint mostly uses the words of its finding's effect."""
    said, again = (set(_WORD.findall(text)) - _FILLERS for text in (effect, hint))
    return bool(again) and len(said & again) > len(again) / 2
