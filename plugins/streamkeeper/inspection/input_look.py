"""Checks whether the files of a batch still exist in the storage from which the query's Spark session reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamkeeper.checkpoints.input_files import FileLook, other_s3
from streamkeeper.checkpoints.open_input import look_at_batch
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.inspection.confs import read_confs

if TYPE_CHECKING:
    from streamkeeper.authoring.definition import Query


def unseen_by(query: Query) -> Mapping[str, str]:
    """Return the URL schemes whose files this process cannot check for the query, each with the reason."""
    return other_s3(read_confs(query.df.sparkSession), os.environ)


def missing_files(query: Query, checkpoint: Tree, batch: int) -> FileLook:
    """Return the source files of a batch that are missing, and those that could not be checked.

    Raises NotFound if the batch is not planned, and CheckpointDamaged if the checkpoint is damaged.
    """
    return look_at_batch(checkpoint.fresh(), batch, unseen=unseen_by(query))


def told_missing(found: FileLook, batch: int) -> str:
    """Return a clause that names the missing files, and states that Spark runs the batch without them; empty if no file
    is missing.
    """
    missing = found.gone_clause(f"source files of batch {batch}")
    return f"{missing}: Spark runs it without them" if missing else ""
