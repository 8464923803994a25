"""Tests the limits on the sizes that a snapshot's objects claim before they are unpacked; the largest ones that a
capture writes are still read.
"""

from __future__ import annotations

import msgspec
import pytest
import zstandard

from streamkeeper.errors import InvalidInput, SnapshotDamaged
from streamkeeper.model.records.snapshot import FORMAT, Chunk, Pack, Snapshot, SnapshotFile, Stamp
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.packs import CHUNK_BYTES, PackBuilder, index_of, open_chunk
from streamkeeper.snapshots.sealing import hash_of, seal, unseal
from tests.contracts.memory_store import MemoryStore
from tests.little_memory import MIB, little
from tests.snapshots.series import SERIES


def sealed(frame: bytes) -> bytes:
    """Seal any frame as a record, as anyone who can write to the store could."""
    return hash_of(frame).encode() + b"\n" + frame


def many_zeros(mib: int, *, sized: bool = True) -> bytes:
    made = zstandard.ZstdCompressor(level=3).compressobj(size=mib * MIB if sized else -1)
    return b"".join(made.compress(b"\0" * MIB) for _ in range(mib)) + made.flush()


def snapshot(files: int, chunk: Chunk | None = None) -> Snapshot:
    def chunks(number: int) -> tuple[Chunk, ...]:
        own = Chunk(hash=hash_of(b"%d" % number), size=100, pack=0, at=number * 100, stored=100)
        return (chunk or own,)

    stamp = Stamp(size=100, modified=1_700_000_000_000_000_000, changed=1_700_000_000_000_000_000, tag="fe01.1234567")
    return Snapshot(
        number=1,
        series=SERIES,
        checkpoint="file:/data/checkpoints/sales/totals/v0001",
        query_id="6c1a6f0e-7f0f-4ab4-9b0b-0f3b5c7f6a11",
        batch=7,
        pending=False,
        offsets={"0": '{"logOffset":7}'},
        watermark_ms=None,
        taken_at="2026-11-23T08:00:00Z",
        stored=files * 100,
        packs=(Pack(name="0" * 64, size=files * 100 + 1000),),
        files=tuple(
            SnapshotFile(path=f"state/0/{number % 200}/{number}.delta", stamp=stamp, chunks=chunks(number))
            for number in range(files)
        ),
    )


@pytest.mark.parametrize("sized", [True, False])
def test_a_small_record_that_would_unpack_to_a_gigabyte_is_refused(sized: bool) -> None:
    """A small record that would unpack to a gigabyte, or that states no size, is refused within 5 MiB of memory, and
    the error names the record and a remedy.
    """
    data = sealed(many_zeros(1024, sized=sized))
    assert len(data) < 100_000
    told = (
        r"index/7 is not what was stored: its unpacked size is .*, but at most [\d,]+ bytes are expected"
        r" \(run `streamkeeper snapshot list`, then restore from another"
    )
    with little(5), pytest.raises(SnapshotDamaged, match=told):
        unseal(data, Snapshot, where="index/7", newest_format=FORMAT, packed=True)


def test_unpacking_without_a_limit_exceeds_the_allowed_memory() -> None:
    """Negative control: unpacking such a frame without a limit exceeds the memory that the tests allow."""
    with pytest.raises(AssertionError), little(5):
        zstandard.ZstdDecompressor().decompress(many_zeros(64))


def test_a_frame_that_understates_its_size_is_refused_as_damaged() -> None:
    """A frame whose stated size was edited to an allowed one is refused as damaged, because zstd checks its content
    against that size.
    """
    frame = many_zeros(64)
    size = (64 * MIB).to_bytes(4, "little")
    assert frame.count(size) == 1
    data = sealed(frame.replace(size, (1000).to_bytes(4, "little")))
    with little(5), pytest.raises(SnapshotDamaged, match="index/7 cannot be unpacked"):
        unseal(data, Snapshot, where="index/7", newest_format=FORMAT, packed=True)


def test_a_pack_whose_index_or_chunk_is_a_bomb_is_damage() -> None:
    """A pack with an oversized index or chunk is refused as damaged; no more of a chunk is unpacked than a chunk may
    have, whatever its record claims.
    """
    index = sealed(many_zeros(1024))
    pack = index + len(index).to_bytes(8, "little") + b"SKPACK01"
    with little(5), pytest.raises(SnapshotDamaged, match="pack is not what was stored: its unpacked size is"):
        index_of(pack, where="pack")
    frame = many_zeros(1024)
    chunk = Chunk(hash="0" * 64, size=1024 * MIB, pack=0, at=0, stored=len(frame))
    with little(5), pytest.raises(SnapshotDamaged, match="at most 8,388,608 bytes are expected"):
        open_chunk(frame, chunk, where="pack")


@pytest.mark.parametrize(
    "claimed",
    [
        {"size": CHUNK_BYTES + 1},
        {"stored": 10**15, "size": 10**15},
        {"stored": 101},
        {"at": 10**15},
        {"at": -1},
        {"stored": 0},
        {"pack": 1},
        {"pack": -1},
    ],
)
def test_a_record_with_impossible_chunk_sizes_or_positions_is_refused_as_damaged(claimed: dict[str, int]) -> None:
    """A record whose chunks have impossible sizes or positions in their pack is refused as damaged, because every
    reader relies on them.
    """
    store = MemoryStore()
    catalogue = Catalogue(store, SERIES)
    good = Chunk(hash="0" * 64, size=100, pack=0, at=0, stored=100)
    assert catalogue.read(catalogue.publish(snapshot(3, good), 0).number)
    number = catalogue.publish(snapshot(3, msgspec.structs.replace(good, **claimed)), 1).number
    with pytest.raises(SnapshotDamaged, match=r"is not what was stored: it lists an impossible chunk \("):
        catalogue.read(number)


def test_a_snapshot_of_a_hundred_thousand_files_is_read() -> None:
    """A snapshot of 100,000 files, more than any observed checkpoint of Spark, is read back."""
    large = snapshot(100_000)
    data = seal(large, packed=True)
    assert unseal(data, Snapshot, where="index/1", newest_format=FORMAT, packed=True) == large


def test_a_record_that_compresses_extremely_well_is_read_back() -> None:
    """A record that compresses extremely well, of 50,000 equal files that differ only in their names, is read back."""
    alike = snapshot(50_000, Chunk(hash="0" * 64, size=100, pack=0, at=0, stored=100))
    data = seal(alike, packed=True)
    assert unseal(data, Snapshot, where="index/1", newest_format=FORMAT, packed=True) == alike


def test_a_record_too_large_to_be_read_back_is_not_written() -> None:
    """A record that is too large to be read back is refused when the snapshot is taken."""
    with pytest.raises(InvalidInput, match="too many to read back"):
        seal({"text": "x" * (300 * MIB)}, packed=True)


def test_a_highly_compressed_chunk_of_the_largest_size_is_read_back() -> None:
    """A chunk of the largest size that compresses to less than 1,000 bytes is read back."""
    builder = PackBuilder(SERIES, 0)
    data = b"\0" * CHUNK_BYTES
    builder.add(hash_of(data), data)
    pack = builder.finish()
    (chunk,) = index_of(pack, where="pack").chunks
    assert chunk.stored < 1000
    assert open_chunk(pack[chunk.at : chunk.at + chunk.stored], chunk, where="pack") == data


def test_an_object_larger_than_any_of_ours_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record or pack that is larger than the limit is refused as damaged and not read into memory."""
    store = MemoryStore()
    catalogue = Catalogue(store, SERIES)
    number = catalogue.publish(snapshot(3), 0).number
    store.values[catalogue.index_key(number)] += b"\0" * 1000
    store.values[catalogue.pack_key("0" * 64)] = b"\0" * 5000
    monkeypatch.setattr(MemoryStore, "most_bytes", 1000)
    with pytest.raises(SnapshotDamaged, match="above the limit of 1,000"):
        catalogue.read(number)
    with pytest.raises(SnapshotDamaged, match="above the limit of 1,000"):
        catalogue.read_pack(Pack(name="0" * 64, size=5000))
