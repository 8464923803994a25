"""What goes from a checkpoint, in the order in which it goes: the value between planning and removing."""

from __future__ import annotations

from enum import Enum

import msgspec

from streamkeeper.model.snapshot import Stamp

REMOVING = "removing"
"""The mark of a version that is being removed: a copy of its metadata, the last file to go."""
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

    def is_still(self, found: Stamp) -> bool:
        """Whether nobody has written it since."""
        return (found.size, found.modified) == (self.size, self.modified)


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


def order_of(one: PlannedRemoval) -> tuple[int, int, str]:
    """State before the logs that tell of it, a file before its checksum."""
    return STAGES.get(one.path.partition("/")[0], len(STAGES)), one.path.count(".crc"), one.path
