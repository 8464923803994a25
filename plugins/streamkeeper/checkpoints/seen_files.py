"""Which files a file source has read, and whether it would read all that it finds in a new place."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

_MAX_AGE_MS = 7 * 24 * 3600 * 1000
"""Spark's default ``maxFileAge``, counted from the newest file it has seen, whichever place that was in."""

_WILD = frozenset("*?[{")


def would_read_all(source_log: Path, before: str, after: str) -> bool:
    """Whether every file in a new place that was not read yet is new enough to be read; False where unknown.

    A place of its own must show at least one such file: an empty one says nothing about what will arrive there.

    Two patterns, or a directory and one above it: another plain path is refused by Spark itself.
    """
    if not _comparable(before, after):
        return False
    try:
        seen = dict(_seen(source_log))
        fresh = {path: os.stat(path).st_mtime * 1000 for path in _found(after) if path not in seen}
    except (OSError, ValueError, KeyError):
        return False
    if not seen or (not fresh and os.path.dirname(before) != os.path.dirname(after) and _is_wild(after)):
        return False
    return all(age >= max(seen.values()) - _MAX_AGE_MS for age in fresh.values())


def _comparable(before: str, after: str) -> bool:
    if not before.startswith("/") or not after.startswith("/") or "{" in before + after:
        return False
    if _is_wild(before) and _is_wild(after):
        return True
    return not _is_wild(after) and Path(before).is_relative_to(after)


def _is_wild(place: str) -> bool:
    return bool(_WILD & set(place))


def _seen(log: Path) -> Iterator[tuple[str, float]]:
    """Path and time in ms of every file in a source's log."""
    for entry in log.iterdir():
        if entry.name.startswith("."):
            continue
        for line in entry.read_text().splitlines()[1:]:
            found = json.loads(line)
            yield unquote(urlsplit(str(found["path"])).path), float(found["timestamp"])


def _found(place: str) -> Iterator[str]:
    for path in glob.glob(place) if _is_wild(place) else [place]:
        if os.path.isdir(path):
            for folder, _, names in os.walk(path):
                yield from (os.path.join(folder, name) for name in names if not name.startswith((".", "_")))
        else:
            yield path
