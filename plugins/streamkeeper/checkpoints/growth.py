"""Measures the size of checkpoints and of file sinks' logs."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from streamkeeper.checkpoints.layout import must_be_checkpoint, numbered
from streamkeeper.checkpoints.listed import Listed
from streamkeeper.checkpoints.log_codec import log_names
from streamkeeper.checkpoints.trees import Tree


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a directory."""

    files: int
    """The number of files, including checksums."""
    bytes: int
    """The total size in bytes of all files, including checksums."""
    crc_files: int
    """The number of checksum files."""
    crc_bytes: int
    """The total size in bytes of the checksum files."""
    batches: int
    """The number of batches."""
    oldest_batch: int | None
    """The oldest batch; None if there is no batch."""
    newest_batch: int | None
    """The newest batch; None if there is no batch."""
    largest_compact: int = 0
    """The size in bytes of the largest compacted entry of a sink's log."""


def checkpoint_growth(tree: Tree) -> Growth:
    """Measure a checkpoint and its committed batches, without files that disappear during the walk. Raises NotFound if
    the directory is not a checkpoint.
    """
    must_be_checkpoint(tree)
    return _growth(_sizes(tree), numbered(tree, "commits"))


def sink_log_growth(tree: Tree) -> Growth:
    """Measure the log ``_spark_metadata`` in a file sink's output. The log has one entry per batch, and some entries
    are compacted.
    """
    sizes = _sizes(tree)
    entries = log_names(sizes)
    compacted = [sizes[f"{number}.compact"] for number in entries.compacted]
    return replace(_growth(sizes, entries.numbers), largest_compact=max(compacted, default=0))


def _sizes(tree: Tree) -> dict[str, int]:
    found: dict[str, int] = {}
    for path in Listed(tree).below(""):
        with suppress(FileNotFoundError):
            found[path] = tree.stamp(path).size
    return found


def _growth(sizes: dict[str, int], batches: Collection[int]) -> Growth:
    checksums = [size for path, size in sizes.items() if path.endswith(".crc")]
    return Growth(
        files=len(sizes),
        bytes=sum(sizes.values()),
        crc_files=len(checksums),
        crc_bytes=sum(checksums),
        batches=len(batches),
        oldest_batch=min(batches, default=None),
        newest_batch=max(batches, default=None),
    )
