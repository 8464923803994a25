"""How large checkpoints and the logs of file sinks have become."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

import msgspec
from msgspec.structs import replace

from streamkeeper.checkpoints.facts import must_be_checkpoint
from streamkeeper.checkpoints.layout import numbered
from streamkeeper.checkpoints.prune_plan import look_at


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """How large a directory has become; ``files`` and ``bytes`` with checksums. ``largest_compact``: bytes."""

    files: int
    bytes: int
    crc_files: int
    crc_bytes: int
    batches: int
    oldest_batch: int | None
    newest_batch: int | None
    largest_compact: int = 0


def checkpoint_growth(directory: Path) -> Growth:
    """Measure a checkpoint and its committed batches; what disappears meanwhile is left out. Raises NotFound."""
    must_be_checkpoint(directory)
    return _growth(look_at(directory).files, numbered(directory / "commits"))


def sink_log_growth(directory: Path) -> Growth:
    """Measure the ``_spark_metadata`` of a file sink's output, which has an entry per batch, some of them compacted."""
    files = look_at(directory).files
    entries = {int(found[1]) for path in files if (found := re.fullmatch(r"(\d+)(\.compact)?", path))}
    compacts = [found.st_size for path, found in files.items() if re.fullmatch(r"\d+\.compact", path)]
    return replace(_growth(files, entries), largest_compact=max(compacts, default=0))


def _growth(files: dict[str, os.stat_result], batches: Collection[int]) -> Growth:
    checksums = [found.st_size for path, found in files.items() if path.endswith(".crc")]
    return Growth(
        files=len(files),
        bytes=sum(found.st_size for found in files.values()),
        crc_files=len(checksums),
        crc_bytes=sum(checksums),
        batches=len(batches),
        oldest_batch=min(batches, default=None),
        newest_batch=max(batches, default=None),
    )
