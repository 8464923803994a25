"""Lists exactly the files that a query needs to resume from one committed batch.

Batch N produces state of version N + 1. Rules and measurements cover HDFS-backed stores, RocksDB, RocksDB with
changelogs, and checkpoint format v2, whose file names contain an id that the commit names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamkeeper.checkpoints.file_sources import source_files
from streamkeeper.checkpoints.listed import Listed
from streamkeeper.checkpoints.state_files import NO_STORES, StateFiles
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged

_DESCRIPTIONS = ("_metadata", "_stateSchema")
_DATED = re.compile(r"(\d+)(_.+)?")


def closed_set(tree: Tree, batch: int, *, pending: bool = False) -> list[str]:
    """Return the sorted paths of the files from which a query resumes after committed ``batch``.

    ``batch``: -1 for a start before the first batch. ``pending``: include the plan of the next batch.

    The function lists every folder once. The only files that it opens are one plan, commits and RocksDB archives.
    Raises CheckpointDamaged when a file is missing, even if Spark has just removed that file because newer batches made
    it superfluous.
    """
    seen = Listed(tree)
    oldest, newest = (batch, batch + 1) if pending else (batch - 1, batch)
    found = {"metadata"}
    found |= {f"offsets/{number}" for number in range(max(0, oldest), newest + 1)}
    if batch >= 0:
        found.add(f"commits/{batch}")
    found.update(source_files(seen, newest))
    found.update(_state(seen, batch, newest))
    for path in sorted(found):
        if not seen.has(path):
            raise CheckpointDamaged(f"{tree.where(path)} is missing: the query cannot resume from batch {batch}")
    return sorted(found)


def _state(seen: Listed, batch: int, newest: int) -> Iterator[str]:
    state = StateFiles(seen)
    for operator in seen.folders("state"):
        yield from _descriptions(seen, f"state/{operator}", newest)
        for partition in filter(str.isdecimal, seen.folders(f"state/{operator}")):
            folder = f"state/{operator}/{partition}"
            named = [f"{folder}/{name}" for name in seen.folders(folder) if name not in NO_STORES]
            for store in (folder, *named):
                yield from _descriptions(seen, store, newest)
                yield from state.of(store, batch)


def _descriptions(seen: Listed, folder: str, newest: int) -> Iterator[str]:
    """Yield the files of schemas and operator metadata, which are tiny; Spark compares a changed query with them.

    transformWithState needs these files and stores a new one of each at every change. Files newer than the batch are
    excluded, because Spark would use them as the current ones.
    """
    for name in _DESCRIPTIONS:
        if name in seen.folders(folder):
            for path in seen.below(f"{folder}/{name}"):
                file = path.rpartition("/")[2]
                dated = _DATED.fullmatch(file)
                if int(dated[1]) <= newest if dated else not file.startswith("."):
                    yield path
