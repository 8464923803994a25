"""Checks a checkpoint without Spark: every damage that its files show, and its effect on a start.

The query must be stopped, because a running batch looks like a batch that a crash interrupted. Two kinds of damage
leave no trace and are not detected: a changed query id and, for a stateless query, removal of the last batch and its
checksums from both logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from streamkeeper.checkpoints.checksums import differs_from_checksum
from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.file_sources import FileSource, file_sources
from streamkeeper.checkpoints.layout import (
    commit_in,
    last_committed,
    last_planned,
    must_be_directory,
    numbered,
    offsets_in,
)
from streamkeeper.checkpoints.listed import Listed
from streamkeeper.checkpoints.log_codec import Commit, Offsets, Trouble, log_names, query_id_from
from streamkeeper.checkpoints.log_damage import commit_damage, offset_damage, order_damage, orphaned_checksums
from streamkeeper.checkpoints.operator_metadata import operator_folders
from streamkeeper.checkpoints.shapes import CHECK_AGAIN, damage
from streamkeeper.checkpoints.source_damage import (
    entries_beyond,
    repeated_offsets,
    source_damage,
    unplanned_entries,
)
from streamkeeper.checkpoints.state_damage import state_beyond, state_damage
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged
from streamkeeper.model.protocol.damage import Damage

_PARTS = ("metadata", "offsets", "commits", "sources", "state")
_NAMES_STATE = 2
"""Spark writes commit log v2 only if commits name the state files; it writes v3 with and without such names."""
_UUID = re.compile(r"[0-9a-fA-F]{1,8}(-[0-9a-fA-F]{1,4}){3}-[0-9a-fA-F]{1,12}")


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the offset log and the commit log that a start would read."""

    planned: int | None
    """The newest planned batch."""
    committed: int | None
    """The newest committed batch."""
    plan: Offsets | None
    """The newest plan; None if it cannot be read."""
    previous: Offsets | None
    """The plan before the newest one; None if it cannot be read."""
    sources: tuple[FileSource, ...]
    """The file sources of the newest plan."""

    @property
    def newest(self) -> int:
        """The newest batch in either log; -1 if both logs are empty."""
        return max((batch for batch in (self.planned, self.committed) if batch is not None), default=-1)

    @property
    def resumed(self) -> int:
        """The batch whose state a start loads; -1 if the start runs the first batch."""
        if self.planned is None:
            return -1
        known = self.planned - 1 if self.committed is None else self.committed
        return known if known <= self.planned else self.planned - 1

    @property
    def ended(self) -> bool:
        """Whether the last planned batch is committed."""
        return self.planned is not None and self.planned == self.committed

    @property
    def ran_without_data(self) -> bool:
        """Whether the last plan only advances the watermark: Spark makes such batches only for queries with state."""
        if self.plan is None or self.previous is None:
            return False
        return self.plan.ends == self.previous.ends and self.plan.watermark_ms > self.previous.watermark_ms


def examine(tree: Tree, *, stateful: bool = False) -> tuple[Damage, ...]:
    """Return all damage to a checkpoint, and notes on harmless oddities; empty for a sound checkpoint or an empty
    directory.

    ``stateful``: whether the query is known to keep state. A checkpoint of format 1 does not record this, so that a
    missing state directory is detected only if ``stateful`` is true.

    Raises NotFound when there is no such directory, CheckpointChanged when a file disappears during the check.
    """
    must_be_directory(tree)
    try:
        return tuple(_examine(tree, stateful=stateful))
    except FileNotFoundError as error:
        raise CheckpointChanged(f"{error.filename} was removed during the check", hint=CHECK_AGAIN) from error


def _examine(tree: Tree, *, stateful: bool) -> Iterator[Damage]:
    names = {name.removesuffix("/") for name in tree.names("") if not name.startswith(".")}
    if names and names.isdisjoint(_PARTS):
        evidence = f"there are no metadata and no offsets, but {', '.join(sorted(names)[:3])}"
        yield damage("not-a-checkpoint", ".", evidence)
    if names.isdisjoint(_PARTS):
        return
    seen = _look(tree)
    found = [*_identity(tree, seen), *_logs(tree, seen), *_state(tree, seen, stateful=stateful)]
    yield from found
    yield from _checksums(tree, seen, {harm.where for harm in found})
    yield from _leftovers(tree)


def _look(tree: Tree) -> _Seen:
    planned = last_planned(tree)
    plan = _readable(tree, planned)
    previous = _readable(tree, planned - 1 if planned else None)
    sources = file_sources(tree, plan, previous) if plan else ()
    return _Seen(planned=planned, committed=last_committed(tree), plan=plan, previous=previous, sources=sources)


def _readable(tree: Tree, batch: int | None) -> Offsets | None:
    found = offsets_in(tree, batch) if batch is not None else None
    return None if isinstance(found, Trouble) else found


def _identity(tree: Tree, seen: _Seen) -> Iterator[Damage]:
    if not tree.has("metadata"):
        if seen.newest >= 0:
            yield damage("metadata-missing", "metadata", f"batch {seen.newest} is recorded, but metadata is missing")
        return
    content = tree.read("metadata")
    if not content:
        yield damage("metadata-empty", "metadata", "metadata has 0 bytes")
    elif not _UUID.fullmatch(query_id_from(content) or ""):
        yield damage("metadata-garbage", "metadata", "metadata contains no query id")


def _logs(tree: Tree, seen: _Seen) -> Iterator[Damage]:
    if seen.committed is not None:
        yield from commit_damage(tree, seen.committed)
    if seen.planned is None:
        yield from _without_offsets(tree, seen)
        return
    yield from offset_damage(tree, seen.planned)
    for source in seen.sources:
        yield from source_damage(tree, source)
    ended = [*_removed(tree, "commits", seen.planned - 1), *entries_beyond(seen.sources, 0)]
    yield from order_damage(seen.planned, seen.committed, ended)
    removed = [*_removed(tree, "offsets", seen.newest), *state_beyond(tree, seen.newest)]
    removed += _removed(tree, "commits", seen.newest) + (entries_beyond(seen.sources, 1) if seen.ended else [])
    if removed:
        yield damage("rewound", f"offsets/{seen.newest + 1}", "; ".join(removed))
    elif seen.ended:
        yield from _beyond_by_one(tree, seen)


def _without_offsets(tree: Tree, seen: _Seen) -> Iterator[Damage]:
    """Check a checkpoint without a planned batch, which counts as new unless other files prove that batches existed."""
    if seen.committed is not None:
        yield damage("offsets-gone", "offsets", f"commits reach batch {seen.committed}, but offsets has no batch")
        return
    state = [name.removesuffix("/") for name in tree.names("state") if not name.startswith(".")]
    if state:
        evidence = f"there is no batch, but state/{state[0]} exists"
        yield damage("offsets-and-commits-gone-beside-state", "offsets", evidence)
        return
    logs = {name: log_names(tree.files(f"sources/{name}")).newest for name in tree.folders("sources")}
    traces = [f"sources/{name} has entry {newest}" for name, newest in logs.items() if newest > 0]
    traces += [*_removed(tree, "offsets", -1), *_removed(tree, "commits", -1)]
    if traces:
        yield damage("offsets-and-commits-gone", "offsets", f"there is no batch, but {traces[0]}")


def _beyond_by_one(tree: Tree, seen: _Seen) -> Iterator[Damage]:
    repeated: list[Damage] = []
    if seen.plan is not None and "state" not in tree.folders(""):
        repeated = list(repeated_offsets(seen.plan, seen.previous, seen.sources))
    yield from repeated or unplanned_entries(seen.sources)


def _state(tree: Tree, seen: _Seen, *, stateful: bool) -> Iterator[Damage]:
    if seen.resumed < 0:
        return
    commit = commit_in(tree, seen.resumed)
    if isinstance(commit, Trouble) and commit is not Trouble.MISSING:
        return
    partitions = {} if isinstance(commit, Trouble) else commit.partitions
    if not partitions and isinstance(commit, Commit) and commit.version == _NAMES_STATE and operator_folders(tree):
        where = f"commits/{seen.resumed}"
        yield damage("commit-cut-short", where, f"{where} does not name the state files")
        return
    yield from state_damage(tree, seen.resumed, partitions, stateful=stateful or seen.ran_without_data)


def _checksums(tree: Tree, seen: _Seen, named: set[str]) -> Iterator[Damage]:
    """Report files that a start reads and that Hadoop would refuse because of their checksums; ``named``: files that
    are already reported.
    """
    for path in sorted(_read_on_start(tree, seen)):
        if path not in named and differs_from_checksum(tree, path):
            yield damage("checksum-mismatch", path, f"{path} does not match its .crc file")


def _read_on_start(tree: Tree, seen: _Seen) -> set[str]:
    found = {"metadata"}
    if seen.planned is not None:
        found |= {f"offsets/{batch}" for batch in (seen.planned - 1, seen.planned)}
    if seen.committed is not None:
        found.add(f"commits/{seen.committed}")
    for source in seen.sources:
        found |= {f"{source.folder}/{source.entries.name_of(number)}" for number in source.entries.numbers}
    try:
        return found | set(closed_set(tree, seen.resumed, pending=seen.resumed != seen.planned))
    except CheckpointDamaged:
        return found


def _leftovers(tree: Tree) -> Iterator[Damage]:
    """Report leftovers of crashes and copies, which a start ignores."""
    halves = sorted(path for path in Listed(tree).below("") if path.endswith(".tmp"))
    if halves:
        yield damage("leftover-temporary-files", halves[0], f"temporary files: {len(halves)}")
    logs = ("offsets", "commits")
    checksums = [name for log in logs for name in tree.files(log) if name.startswith(".") and name.endswith(".crc")]
    if tree.checksums and not checksums and any(numbered(tree, log) for log in logs):
        yield damage("checksums-missing", ".", "offsets and commits have no .crc files")


def _removed(tree: Tree, log: str, newest: int) -> list[str]:
    """Return evidence that an entry after ``newest`` existed and was removed."""
    beyond = [entry for entry in orphaned_checksums(tree, log) if entry > newest]
    return [f"{log}/.{beyond[0]}.crc exists without its file"] if beyond else []
