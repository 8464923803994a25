"""The plan of a prune: files to remove from a checkpoint, in order; passed from planning to removal."""

from __future__ import annotations

from enum import Enum

import msgspec

from streamkeeper.model.records.snapshot import Stamp

REMOVING = "removing"
"""The name of the marker of a version that is being removed. The marker is a copy of the version's metadata, and is the
last file to be removed.
"""
STAGES = {"state": 0, "sources": 1, "offsets": 2, "commits": 3}


class Extent(Enum):
    """The part of a directory that a plan removes."""

    WHOLE = "whole"
    OLD_BATCHES = "old batches"
    LEFTOVERS = "leftovers"


class PlannedRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """A file to remove, provided that its size and time are still the planned ones."""

    path: str
    """The file's path in the directory."""
    size: int
    """The file's size in bytes."""
    modified: int
    """The file's modification time, in nanoseconds since 1970."""
    reason: str
    """Why the file is removed."""
    subject: str = ""
    """The name of the checksummed file in the same folder, if ``path`` is a checksum that may be removed only once that
    file is missing.
    """

    def is_still(self, found: Stamp) -> bool:
        """Whether the file is unchanged since its removal was planned."""
        return (found.size, found.modified) == (self.size, self.modified)


class PrunePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The files to remove from a directory, in the order of their removal."""

    directory: str
    """The directory from which the plan removes files."""
    extent: Extent
    """How much of the directory the plan removes."""
    files: tuple[PlannedRemoval, ...] = ()
    """The files to remove."""
    kept: tuple[str, ...] = ()
    """The files that stay in a retired checkpoint that is cut back."""
    kept_whole: str = ""
    """Why no file is removed; empty if files may be removed."""
    left: tuple[str, ...] = ()
    """The files that the plan does not touch, each with the reason."""


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a prune."""

    files: int = 0
    """How many files were removed."""
    bytes: int = 0
    """How many bytes were removed."""
    failed: tuple[str, ...] = ()
    """The files that could not be removed, each with the reason."""
    left: tuple[str, ...] = ()
    """The files that stay for another reason."""


def order_of(one: PlannedRemoval) -> tuple[int, int, str]:
    """Return the sort key, which puts state before the logs that describe it and a file before its checksum."""
    return STAGES.get(one.path.partition("/")[0], len(STAGES)), one.path.count(".crc"), one.path
