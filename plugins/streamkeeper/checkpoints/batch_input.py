"""Describes the input of a planned batch in one phrase, so that the record on which the batch fails can be found."""

from __future__ import annotations

from streamkeeper.checkpoints.facts import offsets_at
from streamkeeper.checkpoints.layout import open_batch
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import StreamkeeperError
from streamkeeper.sources.known_sources import describe_input


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
    inputs = [_files(files)] if files else []
    inputs += [describe_input(before.get(source.source), source.offset) for source in sources if not source.files]
    return f"batch {batch} reads {'; '.join(filter(None, inputs))}" if any(inputs) else f"batch {batch}"


def _files(files: list[str]) -> str:
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
