"""``python -m bench.snapshots.ours take|restore|floor``: this project's engine as a process of its own.

``take closed|whole``: the newest batch's closed set, which is what the product takes; or every file of the directory
by the same engine, which is what the peers copy. ``restore``: the newest snapshot. ``floor``: a bare boto3 client
that stores one object: what any such process costs before its own work.
"""

from __future__ import annotations

import sys
from pathlib import Path

SERIES = "bench/checkpoint"


def main(words: list[str]) -> None:
    """Run ``take WAY TREE STORE``, ``restore TARGET STORE`` or ``floor BUCKET``."""
    match words:
        case ["take", way, tree, store]:
            _take(way, Path(tree), store)
        case ["restore", target, store]:
            _restore(Path(target), store)
        case ["floor", bucket]:
            _floor(bucket)
        case _:
            raise SystemExit(__doc__)


def _take(way: str, root: Path, store: str) -> None:
    from streamkeeper.checkpoints.trees import LocalTree, Tree
    from streamkeeper.snapshots.anchor import Anchor
    from streamkeeper.snapshots.capture import capture
    from streamkeeper.snapshots.catalogue import Catalogue
    from streamkeeper.stores.store_urls import open_store

    def whole(tree: Tree, _: Anchor) -> list[str]:
        return list(_below(tree, ""))

    def _below(tree: Tree, folder: str) -> list[str]:
        found = []
        for name in tree.names(folder):
            path = f"{folder}{name}"
            found += _below(tree, path) if path.endswith("/") else [path]
        return found

    capture(LocalTree(root), Catalogue(open_store(store), SERIES), plan=whole if way == "whole" else None)


def _restore(target: Path, store: str) -> None:
    from streamkeeper.checkpoints.trees import LocalTree
    from streamkeeper.snapshots.catalogue import Catalogue
    from streamkeeper.snapshots.restore import restore
    from streamkeeper.stores.store_urls import open_store

    catalogue = Catalogue(open_store(store), SERIES)
    newest = catalogue.newest()
    if newest is None:
        raise SystemExit("no snapshot")
    restore(catalogue, newest, LocalTree(target))


def _floor(bucket: str) -> None:
    import boto3

    boto3.session.Session().client("s3").put_object(Bucket=bucket, Key="floor", Body=b"x")


if __name__ == "__main__":
    main(sys.argv[1:])
