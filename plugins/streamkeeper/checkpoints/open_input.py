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

_SPECIAL = frozenset("{}[]*?\\")
"""Spark 4.2.0 takes a path with one of these for a pattern, and reads all files of the batch again for each."""


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


def doubling_files(tree: Tree, batch: int) -> list[str]:
    """Files of a planned batch by whose names Spark reads the other ones again; raises NotFound, CheckpointDamaged.

    One file alone is read once; so are files in partition directories, which Spark collects in a set.
    """
    found = []
    for source in offsets_at(tree, batch):
        paths = [local_path(url) for url in source.files]
        if len(paths) > 1 and not all("=" in folder for path in paths for folder in path.split("/")[-2:-1]):
            found += [path for path in paths if _SPECIAL & set(path)]
    return found


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
