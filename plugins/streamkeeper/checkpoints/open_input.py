"""Checks whether a batch's input files still exist, because Spark runs the batch without its missing files."""

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
"""Spark 4.2.0 treats a path that contains one of these characters as a pattern. For each such path it reads all files
of the batch one more time.
"""


class OpenInput(msgspec.Struct, frozen=True):
    """Two texts about the input files of the open batch: one names the missing files, the other the files that could
    not be checked. Each text may be empty.
    """

    missing: str = ""
    unchecked: str = ""


def look_at_batch(tree: Tree, batch: int, *, unseen: Mapping[str, str] | None = None) -> FileLook:
    """Check the files of a planned batch; ``unseen``: as in ``look_for_files``.

    Raises NotFound if the batch is not planned, CheckpointDamaged if its plan or a source's log cannot be read.
    """
    planned = [local_path(url) for source in offsets_at(tree, batch) for url in source.files]
    return look_for_files(planned, unseen=unseen)


def doubling_files(tree: Tree, batch: int) -> list[str]:
    """Return the files of a planned batch whose names Spark treats as patterns, so that Spark may read other files of
    the batch a second time.

    Two kinds of batches are not affected: a batch with a single file, and a batch of files in partition directories,
    because Spark collects those files in a set. Raises the errors of ``look_at_batch``.
    """
    found = []
    for source in offsets_at(tree, batch):
        paths = [local_path(url) for url in source.files]
        if len(paths) > 1 and not all("=" in folder for path in paths for folder in path.split("/")[-2:-1]):
            found += [path for path in paths if _SPECIAL & set(path)]
    return found


def open_input(tree: Tree, batch: int, *, unseen: Mapping[str, str] | None = None) -> OpenInput:
    """Check the files of a planned batch as ``look_at_batch`` does, but return texts. Raises the errors of
    ``look_at_batch``.
    """
    found, files = look_at_batch(tree, batch, unseen=unseen), f"files of open batch {batch}"
    return OpenInput(found.gone_clause(files), found.unchecked_clause(files))


def find_open_input(tree: Tree, unseen: Callable[[], Mapping[str, str]] = dict) -> OpenInput:
    """Check the files of the open batch, as ``open_input`` does. Both texts are empty if no batch is open, or if the
    batch's plan or a source's log cannot be read.

    ``unseen``: returns the argument ``unseen`` of ``open_input``; called only if a batch is open.
    """
    try:
        batch = open_batch(tree)
        return open_input(tree, batch, unseen=unseen()) if batch is not None else OpenInput()
    except (CheckpointDamaged, NotFound):
        return OpenInput()
