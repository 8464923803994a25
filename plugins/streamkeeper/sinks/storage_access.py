"""Access to the storage of an output: whether a driver may write there, and the removal of a shadow."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from streamkeeper.checkpoints.input_files import other_s3
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import InvalidInput, StoreUnavailable
from streamkeeper.locations import scheme_of


def must_reach(what: str, path: str, hadoop: Any, *, prepared: bool) -> None:
    """Raise InvalidInput if a driver must not write an output in the storage of a path.

    ``what``: the name of this kind of output, for messages. ``hadoop``: the JVM's Hadoop configuration. ``prepared``:
    whether the driver has prepared the JVM for this storage, which it does for the storage of the installation's
    checkpoints and for local disks.
    """
    scheme = scheme_of(path)
    if scheme and not prepared:
        raise InvalidInput(
            f"{what} {path} is on {scheme}://, but the installation's checkpoints are not",
            hint=f"set STREAMKEEPER_CHECKPOINTS to a place on {scheme}://, or write to a local directory",
        )
    endpoints = (f"fs.s3a.bucket.{urlsplit(path).netloc}.endpoint", "fs.s3a.endpoint")
    confs = {f"spark.hadoop.{name}": found for name in endpoints if (found := hadoop.get(name))}
    if why := other_s3(confs, os.environ).get(scheme):
        raise InvalidInput(
            f"{what} {path} cannot be read back: {why}", hint="remove the conf, and set AWS_ENDPOINT_URL"
        )


def remove_folder(folder: Tree, *, first: Iterable[str] = ()) -> None:
    """Remove a folder of an output with all its files, those in ``first`` before the others; can be repeated.

    Raises StoreUnavailable if a part of it cannot be removed. If that is a part of ``first``, the others stay.
    """
    kept = folder.delete(first) or folder.delete(folder.fresh().look().files)
    folder.drop_empty_folders()
    if kept or folder.fresh().names(""):
        why = next((f": {path}: {reason}" for path, reason in kept.items()), "")
        raise StoreUnavailable(f"{folder} cannot be removed completely{why}")
