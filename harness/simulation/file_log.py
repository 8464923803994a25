"""Spark's file logs, ``CompactibleFileStreamLog``: those of a file source and of a file sink."""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.checkpoints.log_codec import LogNames

_INTERVAL = 10
"""Spark's default interval of compaction."""


class IncompleteLog(Exception):
    """Raised as Spark does for a log in which an entry is missing."""


def compacts(number: int) -> bool:
    """Return whether an entry also contains the lines of all entries before it."""
    return (number + 1) % _INTERVAL == 0


def entry_name(number: int) -> str:
    """Return the file name of an entry."""
    return f"{number}.compact" if compacts(number) else str(number)


def whole_log(entries: LogNames, end: int) -> Iterator[str]:
    """Yield the names of the entries up to ``end``, as Spark reads them; raises IncompleteLog if one is missing."""
    compacted = entries.last_compacted(end)
    if compacted >= 0:
        yield f"{compacted}.compact"
    for number in range(compacted + 1, end + 1):
        if number not in entries.plain:
            raise IncompleteLog(f"entry {number} does not exist")
        yield str(number)
