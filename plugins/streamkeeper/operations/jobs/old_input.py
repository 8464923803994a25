"""Find input files that Spark never reads because they are older than ``maxFileAge`` allows. Used for jobs and for
estimates.

A file's age is measured from the newest file that was read. A query that starts from the beginning or goes back has not
read a newer file yet, so it does read these files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from streamkeeper.checkpoints.file_sources import file_sources
from streamkeeper.checkpoints.layout import last_planned, read_offsets
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.checkpoints.unread_files import UnreadFiles, newest_read_ms, too_old
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, NotFound, StoreUnavailable
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.records.job_state import JobState
from streamkeeper.operations.jobs.input_access import unseen_input
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.registered import stored_manifests


class OldInput(msgspec.Struct, frozen=True, kw_only=True):
    """One file source, with the files that are too old to be read."""

    query: str
    """The query that reads the source."""
    place: str
    """The location of the source."""
    files: tuple[str, ...] | None
    """Paths of the files, in order; None if they cannot be listed cheaply and reliably."""
    read_by_others: dict[str, str] = {}
    """Path -> another query that has read the file, and would reread it after a change of its modification time."""


def list_old_input(installation: Installation, state: JobState) -> Iterator[OldInput]:
    """Yield every file source of the current release, with the files in it that are too old to be read.

    A source without such files is yielded too. A query that has not planned a batch yet is left out.

    Raises StoreUnavailable, CheckpointDamaged and CheckpointChanged.
    """
    looks: list[tuple[str, _Look]] = []
    for query, manifest in sorted(stored_manifests(installation, state, state.serving_release).items()):
        current = state.current_version(query)
        if current is not None:
            tree = installation.checkpoint(state, query, current.version)
            looks += [(query, look) for look in _looks(tree, manifest, unseen_input(installation, state, query))]
    for query, look in looks:
        files = tuple(sorted(look.old)) if look.old is not None else None
        others = [(other, each.source) for other, each in looks if other != query]
        read = {path: other for path in files or () for other, source in others if source.has_read(path)}
        yield OldInput(query=query, place=look.place, files=files, read_by_others=read)


class GoesBack(msgspec.Struct, frozen=True):
    """An earlier position to which a query goes back.

    ``tree``: the checkpoint that lists the files read up to this position; ``offsets``: source -> its offset there.
    """

    tree: Tree
    offsets: Mapping[str, str]


def told_old_input(tree: Tree, manifest: Manifest, unseen: Mapping[str, str], *, then: GoesBack | None = None) -> str:
    """Return, as a phrase, how many files that are too old for a query now would be read after the query goes back.

    The phrase is empty if there are no such files, or if their number is unknown. ``tree``: the checkpoint that the
    query leaves; ``manifest``: the query's; ``unseen``: as in ``look_for_files``; ``then``: the earlier position to
    which the query goes back, None for the beginning of every source.
    """
    try:
        back = then or GoesBack(tree, {})
        count = sum(len(look.old) for look in _looks(tree, manifest, unseen, then=back) if look.old)
    except (CheckpointChanged, CheckpointDamaged, NotFound, StoreUnavailable, OSError):
        return ""
    files = "1 file that was" if count == 1 else f"{count:,} files that were"
    return f" and {files} too old to be read so far" if count else ""


class _Look(msgspec.Struct, frozen=True, kw_only=True):
    """The observation of one file source. ``old``: its files that are too old to be read; None if they cannot be
    listed.
    """

    place: str
    source: UnreadFiles
    old: set[str] | None


def _looks(
    tree: Tree, manifest: Manifest, unseen: Mapping[str, str], *, then: GoesBack | None = None
) -> Iterator[_Look]:
    """Yield every file source as of the newest plan. With ``then``, omit the files that are too old at that
    position.
    """
    seen = tree.fresh()
    newest = last_planned(seen)
    if newest is None:
        return
    plan = read_offsets(seen, newest)
    known = {source.name: source for source in file_sources(seen, plan, None)}
    for name, described in zip(plan.ends, manifest.sources, strict=False):
        if name not in known:
            continue
        source = UnreadFiles(described.location, {**described.options, **described.limits}, unseen=unseen)
        there = source.unread(seen, known[name])
        old = source.too_old(there) if there is not None else None
        if there is not None and old and then is not None:
            read_then = newest_read_ms(then.tree, known[name].folder, then.offsets.get(name, ""))
            old -= too_old(there, read_then, source.max_age_ms)
        yield _Look(place=described.location, source=source, old=old)
