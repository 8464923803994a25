"""Damage to the state that the next start loads: operators, partitions, stores and their files."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator

from streamkeeper.checkpoints.checksums import archived_sizes, is_cut_short
from streamkeeper.checkpoints.gaps import find_gaps
from streamkeeper.checkpoints.layout import numbered
from streamkeeper.checkpoints.listed import Listed
from streamkeeper.checkpoints.log_codec import Trouble
from streamkeeper.checkpoints.operator_metadata import (
    OperatorFacts,
    metadata_file,
    operator_folders,
    operator_in,
    schema_format,
)
from streamkeeper.checkpoints.shapes import damage
from streamkeeper.checkpoints.state_files import NO_STORES, StateFiles
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointDamaged
from streamkeeper.model.protocol.damage import Damage

_DEFAULT_STORE = "default"
_LIMIT = "globalLimit"
_NO_KEY = b'{"type":"struct","fields":[]}'
_STATE = re.compile(r"(\d+)(?:_[0-9a-f-]{36})?\.(?:delta|snapshot|zip|changelog)")


def state_damage(tree: Tree, batch: int, partitions: dict[str, int], *, stateful: bool) -> Iterator[Damage]:
    """Find missing or damaged state of committed ``batch``.

    ``partitions``: operator -> number of partitions, from the batch's commit. ``stateful``: whether the query is known
    to keep state. In format 1, a checkpoint without state files does not show whether the query keeps state.
    """
    folders = operator_folders(tree)
    seen = Listed(tree)
    if "state" not in seen.folders(""):
        if stateful or partitions:
            yield damage("state-missing", "state", "the query keeps state, but the directory is missing")
        return
    gaps = find_gaps(0, max(folders, default=0) + 1, folders)
    known = {*folders, *map(int, partitions), *gaps.first}
    for number in sorted(known):
        if number in folders:
            yield from _operator(seen, folders[number], batch, partitions.get(str(number), 0))
        else:
            yield damage("state-operator-missing", f"state/{number}", f"operator {number} has no directory")


def state_beyond(tree: Tree, newest: int) -> list[str]:
    """Return, as evidence, a phrase that names a state file newer than batch ``newest``; empty if there is no such
    file.
    """
    seen = Listed(tree)
    for folder in operator_folders(tree).values():
        for path in sorted(seen.below(folder)):
            found = _STATE.fullmatch(path.rpartition("/")[2])
            if found and int(found[1]) > newest + 1:
                version = f"state of batch {int(found[1]) - 1}"
                return [f"{path} is {version}, but the last known batch is {newest}"]
    return []


def _operator(seen: Listed, operator: str, batch: int, counted: int) -> Iterator[Damage]:
    path = metadata_file(seen.tree, operator)
    facts = operator_in(seen.tree, path) if path else Trouble.MISSING
    if isinstance(facts, Trouble):
        yield _metadata_damage(seen, operator, path or f"{operator}/_metadata", facts)
    known = facts.partitions if isinstance(facts, OperatorFacts) else counted
    there = set(numbered(seen.tree, operator))
    if there == {0} and _keeps_one_partition(seen.tree, operator, facts):
        known = 1
    wanted = max(known, max(there, default=0) + 1)
    missing = find_gaps(0, wanted, there)
    if missing.count:
        evidence = f"missing partitions of the state: {missing} of {wanted}"
        yield damage("state-partition-missing", f"{operator}/{missing.first[0]}", evidence)
    state = StateFiles(seen)
    for partition in sorted(there):
        for store in _stores(seen, f"{operator}/{partition}", facts):
            yield from _schema(seen, store)
            yield from _store(seen, store, batch, state)


def _keeps_one_partition(tree: Tree, operator: str, facts: OperatorFacts | Trouble) -> bool:
    """Whether an operator gathers all rows in the first partition, like a limit or an aggregate without keys; its
    metadata still counts all partitions.
    """
    if isinstance(facts, OperatorFacts) and facts.name == _LIMIT:
        return True
    try:
        return _NO_KEY in tree.read(f"{operator}/0/_metadata/schema")
    except OSError:
        return False


def _metadata_damage(seen: Listed, operator: str, where: str, trouble: Trouble) -> Damage:
    """Classify damaged operator metadata. Metadata of format 1 is not needed for a start, as measured; a schema log
    next to the file shows that the format is later.
    """
    if "_stateSchema" in seen.folders(operator) or "v2" in seen.folders(f"{operator}/_metadata"):
        return damage("state-metadata-log-damaged", where, f"{where} {trouble.value}")
    missing = trouble is Trouble.MISSING
    return damage("state-metadata-missing" if missing else "state-metadata-damaged", where, f"{where} {trouble.value}")


def _stores(seen: Listed, partition: str, facts: OperatorFacts | Trouble) -> list[str]:
    """Return the folders of a partition's stores: the partition's own folder for the default store, and a folder below
    it for each named store.
    """
    if isinstance(facts, OperatorFacts) and facts.stores:
        return [partition if name == _DEFAULT_STORE else f"{partition}/{name}" for name in facts.stores]
    return [f"{partition}/{name}" for name in seen.folders(partition) if name not in NO_STORES] or [partition]


def _schema(seen: Listed, store: str) -> Iterator[Damage]:
    where = f"{store}/_metadata/schema"
    if not seen.has(where):
        return
    found = schema_format(seen.tree, where)
    if isinstance(found, Trouble):
        shape = "newer-format" if found is Trouble.NEWER else "state-schema-damaged"
        yield damage(shape, where, f"{where} {found.value}")


def _store(seen: Listed, store: str, batch: int, state: StateFiles) -> Iterator[Damage]:
    """Check the files that contain one store's state after ``batch``."""
    above, _, name = store.rpartition("/")
    if name not in seen.folders(above):
        yield damage("state-file-missing", store, f"{store} is missing")
        return
    try:
        files = state.of(store, batch)
    except CheckpointDamaged as error:
        broken = _broken_archive(seen, store, batch + 1)
        if broken is None:
            yield damage("state-file-missing", store, str(error).replace(seen.tree.where("x").removesuffix("x"), ""))
        else:
            yield _torn(seen.tree, broken)
        return
    if not files:
        yield damage("state-file-missing", store, f"{store} has no state of batch {batch}")
    for path in files:
        if not seen.has(path):
            yield damage("state-file-missing", path, f"{path} is missing")
        elif (seen.tree.stamp(path).size == 0 and not path.endswith(".log")) or is_cut_short(seen.tree, path):
            yield _torn(seen.tree, path)
        elif path.endswith(".zip"):
            yield from _cut_tables(seen, store, path)


def _torn(tree: Tree, path: str) -> Damage:
    size = tree.stamp(path).size
    return damage("state-file-cut-short" if size else "state-file-empty", path, f"{path} has {size} bytes")


def _broken_archive(seen: Listed, store: str, version: int) -> str | None:
    """Return the newest RocksDB snapshot up to a version if that snapshot cannot be opened."""
    names = [name for name in seen.files(store) if name.endswith(".zip")]
    archives = [(int(found[1]), f"{store}/{name}") for name in names if (found := _STATE.fullmatch(name))]
    newest = max((archive for archive in archives if archive[0] <= version), default=None)
    if newest is None:
        return None
    path = newest[1]
    broken = not zipfile.is_zipfile(io.BytesIO(seen.tree.read(path))) or is_cut_short(seen.tree, path)
    return path if broken else None


def _cut_tables(seen: Listed, store: str, archive: str) -> Iterator[Damage]:
    """Report SSTs whose size differs from the size that is recorded in their snapshot."""
    for name, size in archived_sizes(seen.tree.read(archive)).items():
        path = f"{store}/SSTs/{name}"
        if seen.has(path) and seen.tree.stamp(path).size not in (0, size):
            yield _torn(seen.tree, path)
