"""Damage to the logs of planned and committed batches, and contradictions between them.

Spark reads only the last two offsets and the last commit. A query with asynchronous progress tracking deliberately
leaves gaps in both logs; a checkpoint contains nothing that distinguishes them from damage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamkeeper.checkpoints.gaps import Gaps, find_gaps
from streamkeeper.checkpoints.layout import commit_in, numbered, offsets_in
from streamkeeper.checkpoints.log_codec import Offsets, Trouble
from streamkeeper.checkpoints.shapes import CHECK_AGAIN, damage
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged
from streamkeeper.model.protocol.damage import Damage

_CHECKSUM = re.compile(r"\.(\d+)\.crc")
_OFFSET_SHAPES = {
    Trouble.MISSING: "offset-missing-in-the-middle",
    Trouble.EMPTY: "offset-empty",
    Trouble.UNKNOWN_VERSION: "offset-of-unknown-version",
    Trouble.NEWER: "newer-format",
    Trouble.CUT_SHORT: "offset-cut-short",
}
_COMMIT_SHAPES = {
    Trouble.EMPTY: "commit-empty",
    Trouble.UNKNOWN_VERSION: "commit-of-unknown-version",
    Trouble.NEWER: "newer-format",
    Trouble.CUT_SHORT: "commit-cut-short",
}


def offset_damage(tree: Tree, planned: int) -> Iterator[Damage]:
    """Report damage to the offset log; ``planned``: the last planned batch.

    Each of the last two entries is reported if it is missing or unreadable, or if, in format 1, it has fewer offsets
    than the other one. Older entries that are missing or unreadable are reported together, as one damage.
    """
    found = {batch: offsets_in(tree, batch) for batch in (planned - 1, planned) if batch >= 0}
    for batch, entry in found.items():
        if isinstance(entry, Trouble):
            yield damage(_OFFSET_SHAPES[entry], f"offsets/{batch}", f"offsets/{batch} {entry.value}")
    yield from _fewer_sources(found)
    there = numbered(tree, "offsets")
    older = range(min(there, default=planned), planned - 1)
    gaps = find_gaps(older.start, older.stop, there)
    torn = [batch for batch in there if batch in older and isinstance(offsets_in(tree, batch), Trouble)]
    unusable = Gaps(sorted([*torn, *gaps.first]), len(torn) + gaps.count)
    if unusable.count:
        yield damage("older-offset-unusable", f"offsets/{unusable.first[0]}", f"cannot be read: {unusable}")


def commit_damage(tree: Tree, committed: int) -> Iterator[Damage]:
    """Report the commit of the last committed batch if it cannot be read. Report all missing earlier commits as one
    damage.

    ``committed``: the last committed batch. Raises CheckpointChanged if its commit was removed during the check.
    """
    entry = commit_in(tree, committed)
    if entry is Trouble.MISSING:
        raise CheckpointChanged(f"{tree.where(f'commits/{committed}')} was removed during the check", hint=CHECK_AGAIN)
    if isinstance(entry, Trouble):
        yield damage(_COMMIT_SHAPES[entry], f"commits/{committed}", f"commits/{committed} {entry.value}")
    there = numbered(tree, "commits")
    missing = find_gaps(min(there, default=committed), committed, there)
    if missing.count:
        yield damage("commit-missing-in-the-middle", f"commits/{missing.first[0]}", f"missing: {missing}")


def order_damage(planned: int, committed: int | None, contradictions: list[str]) -> Iterator[Damage]:
    """Report a newest batch that is in only one of the offset log and the commit log.

    ``planned``, ``committed``: the newest batch in each log. ``contradictions``: signs that the last planned batch
    finished. If there are any, a missing commit of that batch is damage. If there are none, the batch is open.
    """
    last = -1 if committed is None else committed
    if last > planned:
        evidence = f"commits/{last} exists, but offsets end with {planned}"
        yield damage("last-offset-missing", f"offsets/{planned + 1}", evidence)
    elif last < planned - 1:
        evidence = f"offsets end with {planned}, but " + (
            "there are no commits" if committed is None else f"commits end with {committed}"
        )
        yield damage("commits-behind", f"commits/{planned - 1}", evidence)
    elif last < planned and contradictions:
        yield damage("last-commit-missing", f"commits/{planned}", "; ".join(contradictions))
    elif last < planned:
        yield damage("open-batch", f"offsets/{planned}", f"batch {planned} is planned and not committed")


def orphaned_checksums(tree: Tree, log: str) -> list[int]:
    """Return the entries of a log that are missing although their checksum file exists.

    Hadoop writes the checksum after the entry, so such an entry existed and was removed.
    """
    kept = {int(found[1]) for name in tree.files(log) if (found := _CHECKSUM.fullmatch(name))}
    return sorted(kept - set(numbered(tree, log)))


def _fewer_sources(found: dict[int, Offsets | Trouble]) -> Iterator[Damage]:
    """Report an entry with fewer offsets than the other one; numbered sources are never added or removed, so offsets
    are lost.
    """
    counts = {
        batch: len(offsets.ends)
        for batch, offsets in found.items()
        if isinstance(offsets, Offsets) and offsets.version == 1
    }
    for batch, count in counts.items():
        if count < max(counts.values()):
            evidence = f"{count} of {max(counts.values())} offsets are present"
            yield damage("offset-cut-short", f"offsets/{batch}", evidence)
