"""Publishes a checkpoint version through the file that is created last, its ``metadata``; no file is renamed.

Files without metadata are not a version. If a writer terminates and leaves such files, the next writer creates the same
version and adds only the missing files. Two writers may also work concurrently: each file is created once, whole and
with the same content, and neither writer removes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

from streamkeeper.checkpoints.trees import NOT_THERE, PART_BYTES, Tree
from streamkeeper.errors import CheckpointChanged, InvalidInput
from streamkeeper.model.records.snapshot import Stamp
from streamkeeper.system.crash_points import crash_point

METADATA = "metadata"
_ANOTHER = "name a directory that does not exist"
_WRITERS = 8
"""The number of files that are written in parallel. The file system writes its journal once for all waiting writers:
240 files take 0.05 s in parallel, 0.5 s in sequence.
"""

Content = Callable[[str], Iterable[bytes]]
"""A function that returns the content of a file, given the file's path. It returns the content in parts, and the same
content at each call.
"""


def is_published(tree: Tree) -> bool:
    """Whether the version is published, and therefore complete."""
    return tree.fresh().has(METADATA)


def publish(target: Tree, files: Mapping[str, bytes], metadata: bytes) -> None:
    """Create a checkpoint version from the contents of its files, which must be small, as ``publish_from`` does.

    ``files``: path -> content; ``metadata``: the content of the metadata. Raises the errors of ``publish_from``.
    """
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
    """Create a checkpoint version, or the missing files of an unfinished one.

    ``target``: the version's tree.
    ``paths``: all files of the version, including its metadata.
    ``content``: returns a file's content.
    ``writers``: how many files are written in parallel.
    ``written``: called with the path of every written file.

    Raises InvalidInput if ``target`` contains a finished version, or any file that is not in ``paths``. Raises
    CheckpointChanged if another process removes files of the version during the write. Raises the errors of
    ``content``.
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
        # A single writer writes in order, and stops after its first failure.
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
    """Return the existing files of an unpublished version; raises InvalidInput if it is published or cannot be
    created.
    """
    absence, seen = target.absence(), target.fresh().look()
    if METADATA in seen.files or "" in seen.odd or absence not in ("", NOT_THERE):
        raise InvalidInput(f"{target.where('')} already exists", hint=_ANOTHER)
    return seen.files


def _create_same(target: Tree, path: str, content: Content, known: Stamp | None) -> None:
    """Create a file, unless it exists with this content. ``known``: the file's stamp, if the file existed before the
    publication began.
    """
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
