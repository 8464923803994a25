"""Reads time windows from the expanded form in Spark's plans as their author wrote them. Pure.

A canonical expression contains the durations of a window and a digest of their use: a session's gap, an offset and a
computed time column appear only in the plan's text.
"""

from __future__ import annotations

import re

from streamkeeper.compatibility.shown import WIDTH, change
from streamkeeper.compatibility.sql_words import duration
from streamkeeper.compatibility.terms import leaf, pieces

SESSION = "session_window("
_TIME = re.compile(r"precisetimestampconversion\(((?:(?!precisetimestampconversion).)+?), TimestampType, LongType\)")
_START = re.compile(r" - (-?\d+)\) % (\d+)\)")
_ID = re.compile(r"#\d+L?(?:-T\d+ms)?")


def window_change(before: str, after: str) -> str:
    """Return the evidence of the first window that differs between the texts of two plans. Return an empty text if no
    window differs.
    """
    for old, new in zip(_windows(before), _windows(after), strict=False):
        if old != new:
            return change(*pieces(leaf(old), leaf(new), WIDTH))
    return ""


def _windows(plan: str) -> list[str]:
    lines = [_ID.sub("", line) for line in plan.splitlines() if "precisetimestampconversion(" in line]
    return [text for line in lines if (text := _window(line))]


def _window(line: str) -> str:
    times = list(dict.fromkeys(_TIME.findall(line)))
    if not times:
        return ""
    gap = next((time[len(times[0]) :] for time in times[1:] if time.startswith(f"{times[0]} + ")), "")
    if gap:
        return f"{SESSION}{times[0]}, {gap.removeprefix(' + ')})"
    start = _START.search(line)
    if start is None:
        return ""
    offset = "" if start[1] == "0" else f", start {duration(int(start[1]))}"
    return f"window({times[0]}, every {duration(int(start[2]))}{offset})"
