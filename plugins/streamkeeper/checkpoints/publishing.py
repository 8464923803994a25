"""A checkpoint version appears by the file that is created last, its ``metadata``; nothing is renamed.

What has no metadata is no version. It is what a writer that died has left; the next one makes the same version of the
same files, and goes on from there. So may two that do not know of each other: what one creates is there once, whole and
equal, and neither takes anything away.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamkeeper.checkpoints.listed import Listed
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.crash_points import crash_point
from streamkeeper.errors import InvalidInput

METADATA = "metadata"
_ANOTHER = "name a directory that does not exist"


def is_published(tree: Tree) -> bool:
    """Whether there is a version: all of it, then."""
    return tree.fresh().has(METADATA)


def publish(target: Tree, files: Mapping[str, bytes], metadata: bytes) -> None:
    """Make a version of small files, or the rest of one; raises InvalidInput where there is a version already, or
    anything that this one will not have.
    """
    where, there = target.where(""), set(Listed(target.fresh()).below(""))
    if METADATA in there:
        raise InvalidInput(f"{where} exists already", hint=_ANOTHER)
    strangers = {path for path in there.difference(files) if not path.endswith(".tmp")}
    if strangers:
        raise InvalidInput(f"{where} exists, and is no checkpoint: it holds {min(strangers)}", hint=_ANOTHER)
    for path, content in files.items():
        crash_point("publish.file.before")
        _create_same(target, path, content)
    crash_point("publish.metadata.before")
    _create_same(target, METADATA, metadata)
    crash_point("publish.metadata.after")


def _create_same(target: Tree, path: str, content: bytes) -> None:
    """Create a file, or find it there with this very content."""
    try:
        target.create(path, [content])
    except FileExistsError:
        if not target.fresh().has(path) or target.read(path) != content:
            raise InvalidInput(f"{target.where(path)} is there with another content", hint=_ANOTHER) from None
