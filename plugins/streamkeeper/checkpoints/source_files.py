"""The files that sources keep in a checkpoint: ``sources/<position or name>``.

A file source logs what it has listed, and counts its entries by itself: a batch without new files makes none, and
after a crash between an entry and its plan one batch takes two. Other sources keep a single entry ``0``, where they
began (Kafka, rate) or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamkeeper.checkpoints.entries import Offsets, Trouble, offsets_from
from streamkeeper.checkpoints.file_sources import log_offset
from streamkeeper.checkpoints.gaps import find_gaps
from streamkeeper.checkpoints.listed import Listed
from streamkeeper.errors import CheckpointDamaged

_ENTRY = re.compile(r"(\d+)(\.compact)?")


def source_files(seen: Listed, newest: int) -> Iterator[str]:
    """Paths of every source's log up to where it stands after batch ``newest``: its last compacted entry, the one
    before that, and those after it. Raises CheckpointDamaged when an entry or the plan is missing or unreadable.
    """
    folders = seen.folders("sources")
    if not folders or newest < 0:
        return
    ends = {name: log_offset(end) for name, end in _offsets(seen, newest).ends.items()}
    counted = {name: end for name, end in ends.items() if end is not None}
    for folder in folders:
        entries = [found for name in seen.files(f"sources/{folder}") if (found := _ENTRY.fullmatch(name))]
        if ends.keys() == set(folders):
            stands = counted.get(folder)
        else:
            # A source that is read twice has two offsets and one log, and which log is whose cannot be told: the
            # furthest offset that it reaches counts. What is beyond its own is read by the next batch, and only once.
            there = max((int(each[1]) for each in entries), default=-1)
            stands = max((each for each in counted.values() if each <= there), default=None)
        yield from (f"sources/{folder}/{name}" for name in _log(seen, folder, entries, stands))


def _offsets(seen: Listed, batch: int) -> Offsets:
    path = f"offsets/{batch}"
    try:
        found = offsets_from(seen.tree.read(path))
    except FileNotFoundError as error:
        raise CheckpointDamaged(f"{seen.tree.where(path)} is missing") from error
    if isinstance(found, Trouble):
        raise CheckpointDamaged(f"{seen.tree.where(path)} {found.value}")
    return found


def _log(seen: Listed, folder: str, entries: list[re.Match[str]], stands: int | None) -> Iterator[str]:
    """``stands``: the last entry that counts; None for a source that counts none, of which everything is taken."""
    if stands is None:
        yield from (each[0] for each in entries)
        return
    plain = {int(each[1]) for each in entries if not each[2]}
    compacted = sorted(int(each[1]) for each in entries if each[2])
    start = max((each for each in compacted if each <= stands), default=-1)
    missing = find_gaps(start + 1, stands + 1, plain).first
    if not missing:
        yield from (str(each) for each in range(start + 1, stands + 1))
    elif (later := next((each for each in compacted if each > stands), None)) is not None:
        # Spark has removed what it holds. Its entries beyond the batch are read by the next one, all at once.
        start = later
    else:
        raise CheckpointDamaged(f"{seen.tree.where(f'sources/{folder}')} lacks entry {missing[0]}")
    if start >= 0:
        yield f"{start}.compact"
        # Not for what it lists: Spark takes the distance of two compacted entries for the interval, and guesses one
        # from a single entry. 19.compact alone means 20 to it, and 39.compact alone 10: then entries seem to lack.
        yield from (f"{each}.compact" for each in compacted[: compacted.index(start)][-1:])
