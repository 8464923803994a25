"""A checkpoint version appears by the file that is created last, its ``metadata``; nothing is renamed.

What has no metadata is no version. It is what a writer that died has left; the next one makes the same version of the
same files, and goes on from there. So may two that do not know of each other: what one creates is there once, whole and
equal, and neither takes anything away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

from streamkeeper.checkpoints.trees import NOT_THERE, PART_BYTES, Tree
from streamkeeper.crash_points import crash_point
from streamkeeper.errors import CheckpointChanged, InvalidInput
from streamkeeper.model.snapshot import Stamp

METADATA = "metadata"
_ANOTHER = "name a directory that does not exist"
_WRITERS = 8
"""The file system writes its journal once for all who wait: 240 files take 0.05 s, one after the other 0.5 s."""

Content = Callable[[str], Iterable[bytes]]
"""A file's content in parts, by its path; the same each time it is asked."""


def is_published(tree: Tree) -> bool:
    """Whether there is a version: all of it, then."""
    return tree.fresh().has(METADATA)


def publish(target: Tree, files: Mapping[str, bytes], metadata: bytes) -> None:
    """Make a version of small files; raises as ``publish_from`` does."""
    contents = {**files, METADATA: metadata}
    publish_from(target, contents, lambda path: [contents[path]], writers=1)


def publish_from(
    target: Tree,
    paths: Collection[str],
    content: Content,
    *,
    writers: int = _WRITERS,
    written: Callable[[str], None] = lambda path: None,
) -> None:
    """Make a version of ``paths``, among them its metadata, or the rest of one, with so many ``writers`` at once.

    ``written`` hears of every file. Raises InvalidInput where there is a version already, or anything that this one
    will not have, CheckpointChanged where somebody removes files of it meanwhile, and what ``content`` raises.
    """
    where, there = target.where(""), _files_in(target)
    strangers = {path for path in there.keys() - {*paths} if not path.endswith(".tmp")}
    if strangers:
        raise InvalidInput(f"{where} exists and is not a checkpoint: it contains {min(strangers)}", hint=_ANOTHER)

    def write(path: str) -> str:
        crash_point("publish.file.before")
        _create_same(target, path, content, there.get(path))
        return path

    with ThreadPoolExecutor(writers, thread_name_prefix="publish") as pool:
        # One alone writes in order, and nothing more once it has failed.
        run = pool.map if writers > 1 else map
        for path in run(write, (path for path in paths if path != METADATA)):
            written(path)
    if missing := {*paths} - _files_in(target).keys() - {METADATA}:
        raise CheckpointChanged(f"{target.where(min(missing))} was removed while its checkpoint was being written")
    crash_point("publish.metadata.before")
    _create_same(target, METADATA, content, None)
    written(METADATA)
    crash_point("publish.metadata.after")


def _files_in(target: Tree) -> dict[str, Stamp]:
    """What is there of a version that is not published; raises InvalidInput where it is, or cannot be made."""
    absence, seen = target.absence(), target.fresh().look()
    if METADATA in seen.files or "" in seen.odd or absence not in ("", NOT_THERE):
        raise InvalidInput(f"{target.where('')} already exists", hint=_ANOTHER)
    return seen.files


def _create_same(target: Tree, path: str, content: Content, known: Stamp | None) -> None:
    """Create a file, unless it is there with this very content; ``known``: what it was before anything was written."""
    try:
        if known is None:
            target.create(path, content(path))
            return
    except FileExistsError:
        if path != METADATA and is_published(target):
            raise InvalidInput(f"{target.where('')} already exists", hint=_ANOTHER) from None
    tree = target.fresh() if known is None else target
    try:
        stamp = known or tree.stamp(path)
        same = _digest(tree.parts(path, PART_BYTES, stamp)) == _digest(content(path))
    except (FileNotFoundError, IsADirectoryError):
        same = False
    if not same:
        raise InvalidInput(f"{target.where(path)} already exists with different content", hint=_ANOTHER) from None


def _digest(parts: Iterable[bytes]) -> bytes:
    digest = sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()
