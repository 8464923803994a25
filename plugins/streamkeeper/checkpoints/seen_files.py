"""Determines which files a file source has read, and whether it would read every unread file in a new place exactly
once.

Spark identifies a file only by its path. Behind a renamed mount, a mirror or a link, every file is new to Spark.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from streamkeeper.checkpoints.file_sources import read_source_entry
from streamkeeper.checkpoints.log_codec import entry_number
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged

_MAX_AGE_MS = 7 * 24 * 3600 * 1000
"""Spark's default ``maxFileAge``, counted back from the newest file that Spark has seen in any place."""

_WILD = frozenset("*?[{")


def would_read_all(tree: Tree, source: str, before: str, after: str) -> bool:
    """Whether a source that moves from ``before`` to ``after`` would read every unread file in the new place exactly
    once.

    ``source``: the source's name or position in the checkpoint, which is also the name of its log.
    ``before``: the old place, a path or a pattern.
    ``after``: the new place.

    False in these cases:

    - The answer is unknown.
    - An unread file is too old to be read.
    - A file in the new place seems to have been read in the old place.
    - The new place is unrelated to the old one and contains no new file, so that it does not show which files will
      arrive there.
    - The places cannot be compared. They can be compared only if both are patterns, or if the new place is a directory
      that contains the old place. Spark itself refuses any other plain path as the new place.
    """
    if not _comparable(before, after):
        return False
    try:
        seen = dict(_seen(tree, f"sources/{source}"))
        fresh = {path: os.stat(path) for path in _found(after) if path not in seen}
    except (OSError, CheckpointDamaged, CheckpointChanged):
        return False
    if not seen or (not fresh and os.path.dirname(before) != os.path.dirname(after) and _is_wild(after)):
        return False
    oldest = max(seen.values()) - _MAX_AGE_MS
    if any(found.st_mtime * 1000 < oldest for found in fresh.values()):
        return False
    return not any(_was_read(seen, fresh, before, after))


def _was_read(
    seen: Mapping[str, float], fresh: Mapping[str, os.stat_result], before: str, after: str
) -> Iterator[bool]:
    """Yield, for each new path, whether its file has already been read. It counts as read if the same file was read, or
    a file with the same relative name, or a file with the same name and time, because some copies keep times. Times are
    compared to the second, because some copies keep no fractions.
    """
    bases = _base(before), _base(after)
    if shared := next((base for base in bases if all(Path(other).is_relative_to(base) for other in bases)), ""):
        bases = shared, shared
    names = {path: _relative(path, bases[0]) for path in seen}
    whole = _by_name((name, path) for path, name in names.items())
    endings = _by_name((ending, path) for path, name in names.items() for ending in (() if shared else _endings(name)))
    stamps = {(os.path.basename(path), int(modified) // 1000) for path, modified in seen.items()}
    same = {identity for path in seen if (identity := _identity(path)) is not None}
    for path, found in fresh.items():
        name = _relative(path, bases[1])
        # A mirror may have more or fewer parent folders: then the shorter name is the end of the longer one.
        longer = [old for ending in (() if shared else _endings(name)) for old in whole.get(ending, ())]
        alike = [*whole.get(name, ()), *endings.get(name, ()), *longer]
        stamp = (os.path.basename(path), found.st_mtime_ns // 1_000_000_000)
        yield stamp in stamps or (found.st_dev, found.st_ino) in same or any(_may_be(old, found) for old in alike)


def _by_name(named: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, path in named:
        found.setdefault(name, []).append(path)
    return found


def _endings(name: str) -> Iterator[str]:
    """Yield the ends of a relative name, without one or more of its first folders."""
    parts = Path(name).parts
    yield from ("/".join(parts[start:]) for start in range(1, len(parts)))


def _may_be(old: str, found: os.stat_result) -> bool:
    """Whether a file may be a copy of the file at the old path. This is excluded if the old file still exists and has a
    different size.
    """
    try:
        return os.stat(old).st_size == found.st_size
    except OSError:
        return True


def _base(place: str) -> str:
    """Return the directory to which names are relative: for a pattern, the part before its first wildcard."""
    if not _is_wild(place):
        return place
    parts = Path(place).parts
    return os.path.join(*parts[: next(number for number, part in enumerate(parts) if _is_wild(part))])


def _relative(path: str, base: str) -> str:
    return os.path.relpath(path, base) if Path(path).is_relative_to(base) else os.path.basename(path)


def _identity(path: str) -> tuple[int, int] | None:
    """Return a file's device and inode, following links; None for a missing file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _comparable(before: str, after: str) -> bool:
    if not before.startswith("/") or not after.startswith("/") or "{" in before + after:
        return False
    if _is_wild(before) and _is_wild(after):
        return True
    return not _is_wild(after) and Path(before).is_relative_to(after)


def _is_wild(place: str) -> bool:
    return bool(_WILD & set(place))


def _seen(tree: Tree, log: str) -> Iterator[tuple[str, float]]:
    """Yield the path and the time in ms of every file in a source's log."""
    for name in tree.files(log):
        if entry_number(name) is not None:
            for file in read_source_entry(tree, f"{log}/{name}"):
                yield unquote(urlsplit(file.path).path), float(file.timestamp)


def _found(place: str) -> Iterator[str]:
    """Yield every file in a place. Linked folders are followed and hidden files are left out, as in Spark's listing."""
    for path in glob.glob(place) if _is_wild(place) else [place]:
        if not os.path.isdir(path):
            yield from (path,) if _shows(os.path.basename(path)) else ()
            continue
        walked: set[str] = set()
        for folder, below, names in os.walk(path, followlinks=True):
            real = os.path.realpath(folder)
            below[:] = [name for name in below if _shows(name)] if real not in walked else []
            walked.add(real)
            yield from (os.path.join(folder, name) for name in names if _shows(name))


def _shows(name: str) -> bool:
    return not name.startswith(".") and (not name.startswith("_") or "=" in name)
