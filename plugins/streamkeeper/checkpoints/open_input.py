"""Whether the files of a batch that is planned and not committed are still there: Spark would run without them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from streamkeeper.checkpoints.facts import offsets_at
from streamkeeper.checkpoints.layout import open_batch
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged, NotFound


def gone_of_batch(tree: Tree, batch: int) -> str:
    """Which local files of a planned batch are gone, as a clause; empty where none is. Raises CheckpointDamaged."""
    planned = [file for source in offsets_at(tree, batch) for file in source.files]
    local = [unquote(urlsplit(url).path) for url in planned if url.startswith("file:")]
    gone = [path for path in local if not Path(path).exists()]
    return f"{len(gone)} of {len(local)} files of open batch {batch} are gone, such as {gone[0]}" if gone else ""


def find_gone_input(tree: Tree) -> str:
    """The same of whatever batch is open; empty where none is, and where that cannot be read."""
    try:
        batch = open_batch(tree)
        return gone_of_batch(tree, batch) if batch is not None else ""
    except (CheckpointDamaged, NotFound):
        return ""
