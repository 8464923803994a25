"""Reads a checkpoint's layout without Spark. Files that are not log entries (``.crc``, temporary files) are ignored."""

from __future__ import annotations

import re

from streamkeeper.checkpoints.log_codec import (
    Commit,
    Offsets,
    Trouble,
    batch_number,
    commit_from,
    offsets_from,
    query_id_from,
    whole,
)
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged, NotFound

_VERSION = re.compile(r"v\d{4,}")
_LOGS = frozenset({"offsets", "commits"})
ANOTHER_DIRECTORY = "name the query's checkpoint directory: it contains metadata, offsets and commits"


def must_be_directory(tree: Tree, shown: str = "") -> None:
    """Raise NotFound unless the checkpoint's directory exists; ``shown``: the directory's name in the message."""
    if absence := tree.absence():
        raise NotFound(f"checkpoint {shown or tree.where('')} {absence}", hint=ANOTHER_DIRECTORY)


def must_be_checkpoint(tree: Tree) -> None:
    """Raise NotFound unless the directory exists and contains metadata or offsets."""
    must_be_directory(tree)
    if not {"metadata", "offsets/"}.intersection(tree.names("")):
        raise NotFound(f"{tree.where('')} is not a checkpoint", hint=ANOTHER_DIRECTORY)


def is_version_name(name: str) -> bool:
    """Whether a directory is named like a checkpoint version: ``v0001``."""
    return _VERSION.fullmatch(name) is not None


def find_checkpoints(tree: Tree) -> dict[str, str]:
    """Return the folder of each query's checkpoint in a tree, by query.

    An empty query name means that the tree itself is a checkpoint. If a query has several versions (``v0001``,
    ``v0002``, ...), the newest version is returned. The result is empty if no folder looks like a checkpoint.
    """
    own = _checkpoint_or_newest(tree, "")
    if own is not None:
        return {"": own}
    found = {name: _checkpoint_or_newest(tree, name) for name in tree.folders("")}
    return {name: folder for name, folder in found.items() if folder is not None}


def _checkpoint_or_newest(tree: Tree, folder: str) -> str | None:
    folders = tree.folders(folder)
    if "metadata" in tree.files(folder) or _LOGS.intersection(folders):
        return folder
    newest = max(filter(is_version_name, folders), key=lambda name: int(name[1:]), default=None)
    return newest and f"{folder}/{newest}".lstrip("/")


def numbered(tree: Tree, folder: str) -> list[int]:
    """Return the numbers of a log's entries; none if the log is missing."""
    names = (name.removesuffix("/") for name in tree.names(folder))
    return [number for name in names if (number := batch_number(name)) is not None]


def last_committed(tree: Tree) -> int | None:
    """Return the newest batch that Spark has committed, or None."""
    return max(numbered(tree, "commits"), default=None)


def last_planned(tree: Tree) -> int | None:
    """Return the newest batch whose offsets are written, or None."""
    return max(numbered(tree, "offsets"), default=None)


def open_batch(tree: Tree) -> int | None:
    """Return the batch that is planned and not committed, or None."""
    planned, committed = last_planned(tree), last_committed(tree)
    if planned is None or (committed is not None and planned <= committed):
        return None
    return planned


def query_id(tree: Tree) -> str:
    """Return Spark's id of the query; raises CheckpointDamaged if the metadata is missing or unreadable."""
    where = tree.where("metadata")
    try:
        found = query_id_from(tree.read("metadata"))
    except FileNotFoundError as error:
        raise CheckpointDamaged(f"{where} is missing") from error
    if found is None:
        raise CheckpointDamaged(
            f"{where} contains no query id", hint="restore the checkpoint, or start a new checkpoint version"
        )
    return found


def id_there(tree: Tree) -> str:
    """Return Spark's id of the query; empty if the checkpoint has no readable id."""
    try:
        return query_id(tree)
    except CheckpointDamaged:
        return ""


def offsets_in(tree: Tree, batch: int) -> Offsets | Trouble:
    """Return the plan of a batch, or the reason why the plan cannot be read."""
    try:
        return offsets_from(tree.read(f"offsets/{batch}"))
    except FileNotFoundError:
        return Trouble.MISSING


def commit_in(tree: Tree, batch: int) -> Commit | Trouble:
    """Return the commit of a batch, or the reason why the commit cannot be read."""
    try:
        return commit_from(tree.read(f"commits/{batch}"))
    except FileNotFoundError:
        return Trouble.MISSING


def read_offsets(tree: Tree, batch: int) -> Offsets:
    """Return the plan of a batch; raises CheckpointDamaged if the plan cannot be read."""
    return whole(offsets_in(tree, batch), tree.where(f"offsets/{batch}"))


def read_commit(tree: Tree, batch: int) -> Commit:
    """Return the commit of a batch; raises CheckpointDamaged if the commit cannot be read."""
    return whole(commit_in(tree, batch), tree.where(f"commits/{batch}"))


def can_restart_open(tree: Tree) -> bool:
    """Whether Spark can start from this checkpoint even if the last planned batch is not committed.

    Spark 4.2.0 cannot start in that case if the sources in the batch's plan have names (see ``Offsets.named``). True if
    no batch is planned. Raises CheckpointDamaged if the plan cannot be read.
    """
    planned = last_planned(tree)
    return planned is None or not read_offsets(tree, planned).named
