"""The files that make one committed batch of a checkpoint complete: no more is needed to go on from it, and no less.

A batch N leaves state of version N + 1. Rules and measurements: HDFS-backed, RocksDB, RocksDB with changelogs, and
checkpoint format v2, whose file names carry an id that the commit names.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from streamkeeper.checkpoints.layout import state_ids
from streamkeeper.errors import CheckpointDamaged

_LOG = re.compile(r"(\d+)(\.compact)?")
_STATE = re.compile(r"(\d+)(?:_([0-9a-f-]{36}))?\.(delta|snapshot|zip|changelog)")
_DESCRIPTIONS = ("_metadata", "_stateSchema")
_BASES = frozenset({"snapshot", "zip"})


def closed_set(checkpoint: Path, batch: int, *, pending: bool = False) -> list[Path]:
    """Files of committed ``batch``, relative to ``checkpoint``, sorted; -1 stands for before the first batch.

    ``pending``: with the plan of the batch after it. Raises CheckpointDamaged when a file is missing, also when Spark
    removed it just now because newer batches made it superfluous.
    """
    oldest, newest = (batch, batch + 1) if pending else (batch - 1, batch)
    found = {Path("metadata")}
    found |= {Path("offsets") / str(each) for each in range(max(0, oldest), newest + 1)}
    if batch >= 0:
        found.add(Path("commits") / str(batch))
    found |= set(_source_logs(checkpoint, newest))
    found |= set(_state(checkpoint, batch))
    missing = sorted(each for each in found if not (checkpoint / each).is_file())
    if missing:
        raise CheckpointDamaged(f"{checkpoint / missing[0]} is missing: batch {batch} cannot be gone on from")
    return sorted(found)


def _source_logs(checkpoint: Path, newest: int) -> Iterator[Path]:
    """Per source: the last compacted log up to the batch, and every log after it."""
    for source in _folders(checkpoint / "sources"):
        logs = [found for path in source.iterdir() if (found := _LOG.fullmatch(path.name))]
        upto = [each for each in logs if int(each[1]) <= newest]
        start = max((int(each[1]) for each in upto if each[2]), default=-1)
        for each in upto:
            if int(each[1]) > start or (each[2] and int(each[1]) == start):
                yield source.relative_to(checkpoint) / each[0]


def _state(checkpoint: Path, batch: int) -> Iterator[Path]:
    for operator in _folders(checkpoint / "state"):
        yield from _descriptions(checkpoint, operator)
        for partition in _folders(operator):
            if not partition.name.isdigit():
                continue
            for store in (partition, *_folders(partition)):
                if store.name not in (*_DESCRIPTIONS, "SSTs", "logs"):
                    yield from _descriptions(checkpoint, store)
                    yield from store_files(checkpoint, store, operator.name, int(partition.name), batch)


def _descriptions(checkpoint: Path, folder: Path) -> Iterator[Path]:
    """Schemas and operator metadata: tiny, and Spark compares a changed query with them."""
    for name in _DESCRIPTIONS:
        for path in sorted((folder / name).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                yield path.relative_to(checkpoint)


class _StateFile(msgspec.Struct, frozen=True):
    version: int
    id: str | None
    kind: str
    name: str


def store_files(checkpoint: Path, store: Path, operator: str, partition: int, batch: int) -> Iterator[Path]:
    """The newest base of one store up to the batch's version, and every change after it."""
    files = list(_state_files(store))
    version = batch + 1
    if not files or version == 0:
        return
    usable = [
        each for each in files if each.version <= version and _is_committed(checkpoint, each, operator, partition)
    ]
    base = max((each for each in usable if each.kind in _BASES), key=lambda each: each.version, default=None)
    start = base.version if base else 0
    changes = [each for each in usable if each.kind not in _BASES and each.version > start]
    gap = set(range(start + 1, version + 1)) - {each.version for each in changes}
    if gap:
        raise CheckpointDamaged(f"{store} lacks version {min(gap)} of its state")
    folder = store.relative_to(checkpoint)
    yield from (folder / each.name for each in changes)
    if base is not None:
        yield folder / base.name
        if base.kind == "zip":
            yield from (folder / each for each in _named_in(store / base.name))


def _state_files(store: Path) -> Iterator[_StateFile]:
    for path in store.iterdir():
        if found := _STATE.fullmatch(path.name):
            yield _StateFile(int(found[1]), found[2], found[3], path.name)


def _is_committed(checkpoint: Path, file: _StateFile, operator: str, partition: int) -> bool:
    """Whether a file with an id belongs to the commit of its batch; a failed attempt leaves others of its version.

    Where that commit has been cleaned up there is nothing to tell them apart by: then every file counts.
    """
    if file.id is None:
        return True
    batch = file.version - 1
    if not (checkpoint / "commits" / str(batch)).is_file():
        return True
    partitions = state_ids(checkpoint, batch).get(operator, [])
    return partition >= len(partitions) or file.id in partitions[partition]


def _named_in(archive: Path) -> Iterable[Path]:
    """The SST and log files that a RocksDB snapshot consists of, relative to its store."""
    try:
        with zipfile.ZipFile(archive) as opened:
            found = json.loads(opened.read("metadata").decode().partition("\n")[2])
    except FileNotFoundError as error:
        raise CheckpointDamaged(f"{archive} is missing") from error
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise CheckpointDamaged(f"{archive} cannot be read") from error
    for each in found.get("sstFiles") or ():
        yield Path("SSTs") / each["dfsSstFileName"]
    for each in found.get("logFiles") or ():
        yield Path("logs") / each["dfsLogFileName"]


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(each for each in path.iterdir() if each.is_dir())
    except FileNotFoundError:
        return []
