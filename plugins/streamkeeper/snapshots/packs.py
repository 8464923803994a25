"""A pack: concatenated chunks, then their index, the index's length and a closing mark.

A pack is written once, under the hash of all its bytes. Its index starts with a random value, so two captures never
write the same pack. Therefore a pack that a prune is about to delete cannot be confused with a pack that was just
written. The index of a snapshot's last pack also contains the whole snapshot, so that the packs suffice to recover a
snapshot whose record is lost.
"""

from __future__ import annotations

import io
import secrets

import msgspec
import zstandard

from streamkeeper.errors import SnapshotDamaged
from streamkeeper.model.records.snapshot import FORMAT, Chunk, Snapshot
from streamkeeper.snapshots.sealing import HINT, hash_of, seal, unpacked, unseal

PACK_BYTES = 32 * 1024 * 1024
CHUNK_BYTES = 8 * 1024 * 1024
_MARK = b"SKPACK01"
_LENGTH = 8
_LEVEL = 1


class PackIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The index of a pack."""

    format: int = FORMAT
    """The format's version."""
    word: str
    """A random value, which makes every pack's name unique."""
    series: str
    """The series of snapshots that the pack belongs to."""
    chunks: tuple[Chunk, ...]
    """The chunks, in their order."""
    snapshot: Snapshot | None = None
    """The whole snapshot; only in the last pack of a snapshot."""


class PackBuilder:
    """Builds a pack in memory; ``position``: its index among the snapshot's packs."""

    def __init__(self, series: str, position: int) -> None:
        self._series = series
        self._position = position
        self._content = io.BytesIO()
        self._chunks: list[Chunk] = []
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)

    @property
    def empty(self) -> bool:
        """Whether the pack has no chunk yet."""
        return not self._chunks

    @property
    def full(self) -> bool:
        """Whether the pack is full, so that the next chunk belongs in another pack."""
        return self._content.tell() >= PACK_BYTES

    def add(self, digest: str, data: bytes) -> Chunk:
        """Add a chunk, compressed if that makes it smaller."""
        packed = self._compressor.compress(data)
        content = packed if len(packed) < len(data) else data
        chunk = Chunk(hash=digest, size=len(data), pack=self._position, at=self._content.tell(), stored=len(content))
        self._content.write(content)
        self._chunks.append(chunk)
        return chunk

    def finish(self, snapshot: Snapshot | None = None) -> bytes:
        """Return all bytes of the pack; afterwards no chunk can be added."""
        index = PackIndex(
            word=secrets.token_hex(16), series=self._series, chunks=tuple(self._chunks), snapshot=snapshot
        )
        sealed = seal(index, packed=True)
        self._content.write(sealed + len(sealed).to_bytes(_LENGTH, "little") + _MARK)
        return self._content.getvalue()


def index_of(pack: bytes, *, where: str) -> PackIndex:
    """Return the index at the end of a pack; raises SnapshotDamaged or FormatTooNew."""
    end = len(pack) - len(_MARK) - _LENGTH
    if end < 0 or pack[-len(_MARK) :] != _MARK:
        raise SnapshotDamaged(f"{where} is not a pack: it does not end with a pack's mark")
    start = end - int.from_bytes(pack[end : end + _LENGTH], "little")
    if start < 0:
        raise SnapshotDamaged(f"{where} is not a pack: its index is longer than the file")
    index = unseal(bytes(pack[start:end]), PackIndex, where=where, newest_format=FORMAT, packed=True)
    for chunk in index.chunks:
        check_chunk(chunk, len(pack), where=where)
    return index


def check_snapshot(snapshot: Snapshot, *, where: str) -> None:
    """Raise SnapshotDamaged for sizes that no capture writes, because a restore would rely on them."""
    sizes = dict(enumerate(pack.size for pack in snapshot.packs))
    for file in snapshot.files:
        for chunk in file.chunks:
            check_chunk(chunk, sizes.get(chunk.pack, 0), where=where)


def check_chunk(chunk: Chunk, pack_bytes: int, *, where: str) -> None:
    """Raise SnapshotDamaged for a chunk that is impossible in a pack of this size."""
    if not 0 < chunk.stored <= chunk.size <= CHUNK_BYTES or not 0 <= chunk.at <= pack_bytes - chunk.stored:
        description = (
            f"{chunk.size:,} bytes, stored as {chunk.stored:,} bytes at offset {chunk.at:,} of pack {chunk.pack}"
        )
        raise SnapshotDamaged(
            f"{where} is not what was stored: it lists an impossible chunk ({description})", hint=HINT
        )


def open_chunk(stored: bytes | memoryview, chunk: Chunk, *, where: str) -> bytes:
    """Return a chunk's original bytes from its stored bytes; raises SnapshotDamaged."""
    data = bytes(stored)
    if len(data) != chunk.stored:
        raise SnapshotDamaged(f"{where} is cut short")
    if chunk.stored != chunk.size:
        data = unpacked(data, min(chunk.size, CHUNK_BYTES), where=where)
    if len(data) != chunk.size or hash_of(data) != chunk.hash:
        raise SnapshotDamaged(f"{where} is not what was stored: the hash of a chunk differs")
    return data
