"""Provides checkpoints and stores for the tests of snapshots, and functions that read their content."""

from __future__ import annotations

from pathlib import Path

from harness.checkpoint_files import Tree, salt_state
from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.records.snapshot import series_of_query
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.stores.contract import Store

__all__ = ["KINDS", "SERIES", "a_checkpoint", "catalogue", "files_below", "salt_state", "wanted"]
SERIES = series_of_query("sales", "totals")
KINDS = ("stateless", "hdfs", "rocksdb", "changelog", "format-2")


def a_checkpoint(root: Path, kind: str = "changelog", *, batches: int = 8) -> Tree:
    """Create a checkpoint with random bytes in its state files, so that they differ from each other."""
    tree = Tree(root, kind, batches=batches, snapshots=tuple(range(3, batches + 1, 5)))
    salt_state(root)
    return tree


def files_below(root: Path) -> dict[str, bytes]:
    """Return the content of every file by its path."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def wanted(checkpoint: Path, batch: int, *, pending: bool = False) -> dict[str, bytes]:
    """Return the closed set of a batch, the content of each file by its path."""
    paths = closed_set(LocalTree(checkpoint), batch, pending=pending)
    return {path: (checkpoint / path).read_bytes() for path in paths}


def catalogue(store: Store) -> Catalogue:
    """Return the catalogue of the tests' series in this store."""
    return Catalogue(store, SERIES)
