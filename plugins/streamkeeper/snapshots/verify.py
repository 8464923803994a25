"""Reads back every object that snapshots need and compares it with its hash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from streamkeeper.errors import FormatTooNew, KeyMissing, NotFound, SnapshotDamaged
from streamkeeper.model.records.snapshot import Chunk, Pack, Snapshot, snapshot_name
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.packs import index_of, open_chunk
from streamkeeper.snapshots.sealing import hash_of


class DamagedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that is missing or was changed, and the snapshots that cannot be restored without it."""

    key: str
    why: str
    snapshots: tuple[str, ...]


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading back and checking a series."""

    snapshots: int
    """How many snapshots were read."""
    packs: int
    """How many packs were read."""
    chunks: int
    """How many chunks were checked."""
    bytes: int
    """Bytes of the packs that were read without damage."""
    damaged: tuple[DamagedObject, ...]
    """The damaged objects; empty if every object is as it was stored."""


Show = Callable[[int, int], None]
"""A function that receives the number of packs read so far and of packs in total."""


def verify(catalogue: Catalogue, numbers: Iterable[int] | None = None, *, show: Show | None = None) -> Verification:
    """Read back every object of the snapshots ``numbers``, each pack once, and compare each object with its hash.

    Without ``numbers``, every object of the series is read.

    Raises StoreUnavailable.
    """
    damaged: list[DamagedObject] = []
    snapshots: list[Snapshot] = []
    for number in sorted(numbers) if numbers is not None else catalogue.numbers():
        try:
            snapshots.append(catalogue.read(number))
            catalogue.drills(number), catalogue.pin_of(number), catalogue.holds(number)
        except (SnapshotDamaged, FormatTooNew, NotFound) as error:
            name = snapshot_name(number)
            damaged.append(DamagedObject(key=catalogue.index_key(number), why=str(error), snapshots=(name,)))
    needed = _needed(snapshots)
    chunks = size = 0
    for done, (pack, users) in enumerate(needed.items()):
        if show is not None:
            show(done, len(needed))
        try:
            wanted = _chunks_in(users, pack)
            size += _check_pack(catalogue, pack, wanted)
            chunks += len(wanted)
        except (SnapshotDamaged, FormatTooNew) as error:
            names = tuple(snapshot.name for snapshot in users)
            damaged.append(DamagedObject(key=catalogue.pack_key(pack.name), why=str(error), snapshots=names))
    if numbers is None:
        damaged += _check_the_rest(catalogue, {pack.name for pack in needed})
    return Verification(snapshots=len(snapshots), packs=len(needed), chunks=chunks, bytes=size, damaged=tuple(damaged))


def _check_the_rest(catalogue: Catalogue, needed: set[str]) -> Iterator[DamagedObject]:
    """Check the marks of prunes, and packs that no snapshot needs. Damage to them affects no snapshot."""
    for key in catalogue.marks():
        try:
            catalogue.read_mark(key)
        except (SnapshotDamaged, FormatTooNew) as error:
            yield DamagedObject(key=key, why=str(error), snapshots=())
    for name in sorted(catalogue.pack_names() - needed):
        where = catalogue.pack_key(name)
        with suppress(KeyMissing):
            if hash_of(catalogue.store.read(where)) != name:
                why = f"{where} is not what was stored: its hash differs"
                yield DamagedObject(key=where, why=why, snapshots=())


def _check_pack(catalogue: Catalogue, pack: Pack, wanted: Iterable[Chunk]) -> int:
    where = catalogue.pack_key(pack.name)
    content = catalogue.read_pack(pack)
    if hash_of(content) != pack.name:
        raise SnapshotDamaged(f"{where} is not what was stored: its hash differs")
    index_of(content, where=where)
    view = memoryview(content)
    for chunk in wanted:
        open_chunk(view[chunk.at : chunk.at + chunk.stored], chunk, where=where)
    return len(content)


def _needed(snapshots: Iterable[Snapshot]) -> dict[Pack, list[Snapshot]]:
    found: dict[Pack, list[Snapshot]] = {}
    for snapshot in snapshots:
        for pack in snapshot.packs:
            found.setdefault(pack, []).append(snapshot)
    return found


def _chunks_in(snapshots: Iterable[Snapshot], pack: Pack) -> set[Chunk]:
    """Return the chunks that snapshots have in a pack, without the pack's position, which differs between snapshots."""
    found = set()
    for snapshot in snapshots:
        place = snapshot.packs.index(pack)
        chunks = (chunk for file in snapshot.files for chunk in file.chunks if chunk.pack == place)
        found |= {msgspec.structs.replace(chunk, pack=0) for chunk in chunks}
    return found
