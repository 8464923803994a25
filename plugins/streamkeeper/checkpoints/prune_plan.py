"""What goes from a checkpoint directory, in the order in which it goes: the value between planning and removing."""

from __future__ import annotations

import os
import re
import stat
import uuid
from contextlib import suppress
from enum import Enum
from pathlib import Path

import msgspec

REMOVED = re.compile(r"\.removed-.+-[0-9a-f]{32}")
"""The name of a directory that is being removed, as ``removed_path`` gives it."""
STAGES = {"state": 0, "sources": 1, "offsets": 2, "commits": 3}


class Extent(Enum):
    """How much of a directory a plan takes."""

    WHOLE = "whole"
    OLD_BATCHES = "old batches"
    LEFTOVERS = "leftovers"


class PlannedRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """A file to remove, by its path in the directory, if it is still of that size (bytes) and time (ns since 1970).

    ``subject``: name of the file beside it whose checksum it is, if it may go only when that one is gone.
    """

    path: str
    size: int
    modified: int
    reason: str
    subject: str = ""


class PrunePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What goes from a directory, in the order in which it goes.

    ``kept``: the files that stay in a retired checkpoint that is cut back. ``kept_whole``: why nothing goes at all;
    ``left``: what was left alone, each with the reason.
    """

    directory: str
    extent: Extent
    files: tuple[PlannedRemoval, ...] = ()
    kept: tuple[str, ...] = ()
    kept_whole: str = ""
    left: tuple[str, ...] = ()


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What went: files and bytes. ``failed``: what could not be removed; ``left``: what stays for another reason."""

    files: int = 0
    bytes: int = 0
    failed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class Seen(msgspec.Struct, frozen=True):
    """A directory as it was found, by paths. ``files``: all that is no folder; ``odd``: no regular file either."""

    files: dict[str, os.stat_result]
    odd: list[str]


def removed_path(directory: Path) -> Path:
    """Where a directory goes to be removed: beside itself, under a name that nothing else has."""
    return directory.with_name(f".removed-{directory.name.lstrip('.')}-{uuid.uuid4().hex}")


def order_of(one: PlannedRemoval) -> tuple[int, int, str]:
    """State before the logs that tell of it, a file before its checksum."""
    return STAGES.get(one.path.partition("/")[0], len(STAGES)), one.path.count(".crc"), one.path


def look_at(directory: Path) -> Seen:
    """Everything below a directory; what disappears meanwhile is left out, all of it if the directory is gone."""
    files: dict[str, os.stat_result] = {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with suppress(FileNotFoundError), os.scandir(directory / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}".lstrip("/")
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                    continue
                with suppress(FileNotFoundError):
                    files[path] = entry.stat(follow_symlinks=False)
    return Seen(files, sorted(path for path, found in files.items() if not stat.S_ISREG(found.st_mode)))
