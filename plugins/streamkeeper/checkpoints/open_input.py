"""Whether the files that a batch reads are still there: Spark runs it without those that are gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from streamkeeper.checkpoints.facts import offsets_at
from streamkeeper.checkpoints.input_files import FileLook, look_for_files
from streamkeeper.checkpoints.layout import open_batch
from streamkeeper.checkpoints.positions import local_path
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged, NotFound


class OpenInput(msgspec.Struct, frozen=True):
    """Files of the open batch that are gone, and those that could not be looked for; a clause each, or empty."""

    gone: str = ""
    unchecked: str = ""


def look_at_batch(tree: Tree, batch: int, *, unseen: Mapping[str, str] | None = None) -> FileLook:
    """Look for the files of a planned batch; ``unseen``: as in ``look_for_files``.

    Raises NotFound where the batch is not planned, CheckpointDamaged.
    """
    planned = [local_path(url) for source in offsets_at(tree, batch) for url in source.files]
    return look_for_files(planned, unseen=unseen)


def open_input(tree: Tree, batch: int, *, unseen: Mapping[str, str] | None = None) -> OpenInput:
    """The same of the open batch, as clauses. Raises NotFound, CheckpointDamaged."""
    found, files = look_at_batch(tree, batch, unseen=unseen), f"files of open batch {batch}"
    return OpenInput(found.gone_clause(files), found.unchecked_clause(files))


def find_open_input(tree: Tree, unseen: Callable[[], Mapping[str, str]] = dict) -> OpenInput:
    """The same of whatever batch is open; nothing where none is, and where that cannot be read.

    ``unseen`` is asked only where a batch is open.
    """
    try:
        batch = open_batch(tree)
        return open_input(tree, batch, unseen=unseen()) if batch is not None else OpenInput()
    except (CheckpointDamaged, NotFound):
        return OpenInput()
