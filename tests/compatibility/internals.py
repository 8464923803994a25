"""Notation that only Streamkeeper or Spark's optimizer knows, and no finding uses."""

from __future__ import annotations

import re

SPEAKS_INTERNALS = re.compile(
    r"#\d|µs|0{6}|\b[0-9a-f]{12,}\b|\bsource \d+\.\w+:|\w:(?:string|long|integer)\b|in session"
    r"|\b(?:lessthan|equalto|casewhen|tuple2|isnotnull|fromjson|hset)\(|~(?:Project|Filter|Aggregate)|nothing to do"
)
