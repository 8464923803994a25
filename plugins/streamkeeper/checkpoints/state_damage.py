"""Damage to the state that the next start loads: operators, partitions, stores and their files."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from streamkeeper.checkpoints.entries import Trouble
from streamkeeper.checkpoints.gaps import find_gaps
from streamkeeper.checkpoints.layout import numbered
from streamkeeper.checkpoints.listed import Listed
from streamkeeper.checkpoints.operator_metadata import (
    OperatorFacts,
    metadata_file,
    operator_folders,
    operator_in,
    schema_format,
)
from streamkeeper.checkpoints.shapes import damage
from streamkeeper.checkpoints.state_files import NO_STORES, StateFiles
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.checkpoints.wholeness import archived_sizes, is_cut_short
from streamkeeper.errors import CheckpointDamaged
from streamkeeper.model.damage import Damage

_DEFAULT_STORE = "default"
_LIMIT = "globalLimit"
_NO_KEY = b'{"type":"struct","fields":[]}'
_STATE = re.compile(r"(\d+)(?:_[0-9a-f-]{36})?\.(?:delta|snapshot|zip|changelog)")


def state_damage(checkpoint: Path, batch: int, partitions: dict[str, int], *, stateful: bool) -> Iterator[Damage]:
    """What the state of committed ``batch`` lacks; ``partitions``: operator -> their number, as its commit tells.

    ``stateful``: whether the query is known to keep state, which a checkpoint in format 1 tells by its state only.
    """
    folders = operator_folders(checkpoint)
    if not (checkpoint / "state").is_dir():
        if stateful or partitions:
            yield damage("state-missing", "state", "the query keeps state, and there is none")
        return
    gaps = find_gaps(0, max(folders, default=0) + 1, folders)
    known = {*folders, *map(int, partitions), *gaps.first}
    for number in sorted(known):
        if number in folders:
            yield from _operator(checkpoint, folders[number], batch, partitions.get(str(number), 0))
        else:
            yield damage("state-operator-missing", f"state/{number}", f"operator {number} has no directory")


def state_beyond(checkpoint: Path, newest: int) -> list[str]:
    """The first state file of a version that no batch up to ``newest`` can have written, as evidence."""
    for folder in operator_folders(checkpoint).values():
        for path in sorted(folder.rglob("*")):
            found = _STATE.fullmatch(path.name)
            if found and int(found[1]) > newest + 1:
                version = f"state of batch {int(found[1]) - 1}"
                return [f"{path.relative_to(checkpoint)} is {version}, the last known batch is {newest}"]
    return []


def _operator(checkpoint: Path, operator: Path, batch: int, counted: int) -> Iterator[Damage]:
    where = operator.relative_to(checkpoint)
    path = metadata_file(operator)
    facts = operator_in(path) if path else Trouble.MISSING
    if isinstance(facts, Trouble):
        yield _metadata_damage(operator, str((path or operator / "_metadata").relative_to(checkpoint)), facts)
    known = facts.partitions if isinstance(facts, OperatorFacts) else counted
    there = set(numbered(operator))
    if there == {0} and _keeps_one_partition(operator, facts):
        known = 1
    wanted = max(known, max(there, default=0) + 1)
    missing = find_gaps(0, wanted, there)
    if missing.count:
        evidence = f"missing: {missing} of {wanted}"
        yield damage("state-partition-missing", f"{where}/{missing.first[0]}", evidence)
    state = StateFiles(Listed(LocalTree(checkpoint)))
    for partition in sorted(there):
        for store in _stores(operator / str(partition), facts):
            yield from _schema(checkpoint, store)
            yield from _store(checkpoint, store, batch, state)


def _keeps_one_partition(operator: Path, facts: OperatorFacts | Trouble) -> bool:
    """A limit, and an aggregate without keys, gather all rows into the first partition; the metadata counts all."""
    if isinstance(facts, OperatorFacts) and facts.name == _LIMIT:
        return True
    try:
        return _NO_KEY in (operator / "0" / "_metadata" / "schema").read_bytes()
    except OSError:
        return False


def _metadata_damage(operator: Path, where: str, trouble: Trouble) -> Damage:
    """The first format was measured not to be needed; a later one is found by the schema log beside it."""
    if (operator / "_stateSchema").is_dir() or (operator / "_metadata" / "v2").is_dir():
        return damage("state-metadata-log-damaged", where, f"{where} {trouble.value}")
    missing = trouble is Trouble.MISSING
    return damage("state-metadata-missing" if missing else "state-metadata-damaged", where, f"{where} {trouble.value}")


def _stores(partition: Path, facts: OperatorFacts | Trouble) -> list[Path]:
    """Folders of a partition's stores: the partition's own for the default store, else one below it per name."""
    if isinstance(facts, OperatorFacts) and facts.stores:
        return [partition if name == _DEFAULT_STORE else partition / name for name in facts.stores]
    named = sorted(each for each in partition.iterdir() if each.is_dir() and each.name not in NO_STORES)
    return named or [partition]


def _schema(checkpoint: Path, store: Path) -> Iterator[Damage]:
    path = store / "_metadata" / "schema"
    if not path.is_file():
        return
    where, found = str(path.relative_to(checkpoint)), schema_format(path)
    if isinstance(found, Trouble):
        shape = "newer-format" if found is Trouble.NEWER else "state-schema-damaged"
        yield damage(shape, where, f"{where} {found.value}")


def _store(checkpoint: Path, store: Path, batch: int, state: StateFiles) -> Iterator[Damage]:
    """Files that hold one store's state after ``batch``."""
    where = store.relative_to(checkpoint).as_posix()
    if not store.is_dir():
        yield damage("state-file-missing", where, f"{where} is missing")
        return
    try:
        files = [checkpoint / each for each in state.of(where, batch)]
    except CheckpointDamaged as error:
        broken = _broken_archive(store, batch + 1)
        if broken is None:
            yield damage("state-file-missing", where, str(error).replace(f"{checkpoint}/", ""))
        else:
            yield _torn(checkpoint, broken)
        return
    if not files:
        yield damage("state-file-missing", where, f"{where} holds no state of batch {batch}")
    for path in files:
        if not path.is_file():
            name = str(path.relative_to(checkpoint))
            yield damage("state-file-missing", name, f"{name} is missing")
        elif (path.stat().st_size == 0 and path.suffix != ".log") or is_cut_short(path):
            yield _torn(checkpoint, path)
        elif path.suffix == ".zip":
            yield from _cut_tables(checkpoint, path)


def _torn(checkpoint: Path, path: Path) -> Damage:
    name, size = str(path.relative_to(checkpoint)), path.stat().st_size
    return damage("state-file-cut-short" if size else "state-file-empty", name, f"{name} has {size} bytes")


def _broken_archive(store: Path, version: int) -> Path | None:
    """The newest RocksDB snapshot up to a version, if it is one that cannot be opened."""
    archives = [
        (int(found[1]), path) for path in store.glob("*.zip") if (found := _STATE.fullmatch(path.name)) is not None
    ]
    newest = max((each for each in archives if each[0] <= version), default=None)
    return newest[1] if newest and (not zipfile.is_zipfile(newest[1]) or is_cut_short(newest[1])) else None


def _cut_tables(checkpoint: Path, archive: Path) -> Iterator[Damage]:
    """SSTs that are shorter or longer than their snapshot says."""
    for name, size in archived_sizes(archive).items():
        path = archive.parent / "SSTs" / name
        if path.is_file() and path.stat().st_size not in (0, size):
            yield _torn(checkpoint, path)
