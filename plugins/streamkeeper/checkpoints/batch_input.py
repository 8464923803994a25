"""Describes the input of a planned batch in a clause, so that the record on which the batch fails can be found."""

from __future__ import annotations

import json

from streamkeeper.checkpoints.facts import offsets_at
from streamkeeper.checkpoints.layout import open_batch
from streamkeeper.checkpoints.log_codec import kafka_offsets
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import StreamkeeperError

_MOST_PARTITIONS = 3


def input_of_open_batch(tree: Tree) -> str:
    """Return a phrase that names the input files or offset ranges of the planned, uncommitted batch.

    Return an empty text if there is no such batch, or if its plan cannot be read.
    """
    try:
        batch = open_batch(tree)
        if batch is None:
            return ""
        sources = offsets_at(tree, batch)
        before = {each.source: each.offset for each in offsets_at(tree, batch - 1)} if batch > 0 else {}
    except (StreamkeeperError, OSError, ValueError):
        return ""
    files = [file for source in sources for file in source.files]
    told = [_files(files)] if files else []
    told += [_offsets(source.offset, before.get(source.source)) for source in sources if not source.files]
    return f"batch {batch} reads {'; '.join(filter(None, told))}" if any(told) else f"batch {batch}"


def _files(files: list[str]) -> str:
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def _offsets(end: str | None, start: str | None) -> str:
    """Return text such as ``events/0 from offset 5 to 9``; Spark's end offsets are exclusive."""
    if end is None or kafka_offsets(end) is None:
        return ""
    begun = json.loads(start) if start is not None and kafka_offsets(start) is not None else {}
    ranges = []
    for topic, partitions in json.loads(end).items():
        for partition, next_offset in partitions.items():
            first = begun.get(topic, {}).get(partition)
            if first != next_offset:
                since = "" if first is None else f" from offset {first}"
                ranges.append(f"{topic}/{partition}{since} to {next_offset - 1}")
    more = f" and {len(ranges) - _MOST_PARTITIONS} more" if len(ranges) > _MOST_PARTITIONS else ""
    return ", ".join(ranges[:_MOST_PARTITIONS]) + more
