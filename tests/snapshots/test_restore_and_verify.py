"""Restoring and verifying: no flipped byte goes unnoticed, and nothing half restored is ever seen."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from pathlib import Path

import msgspec
import pytest

from harness.fault_store import FaultStore, unavailable
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import (
    FormatTooNew,
    InvalidInput,
    NotFound,
    PermanentError,
    SnapshotDamaged,
    StoreUnavailable,
)
from streamkeeper.model.snapshot import DrillResult, Garbage, Hold, Pin, check_series, snapshot_number
from streamkeeper.snapshots.capture import capture
from streamkeeper.snapshots.catalogue import Catalogue, list_series
from streamkeeper.snapshots.packs import index_of
from streamkeeper.snapshots.restore import restore
from streamkeeper.snapshots.sealing import hash_of, seal
from streamkeeper.snapshots.verify import verify
from tests.contracts.memory_store import MemoryStore
from tests.snapshots.series import SERIES, a_checkpoint, catalogue, files_below, salt_state, wanted


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    """Two snapshots of one checkpoint, with every kind of record."""
    store = MemoryStore()
    live = a_checkpoint(tmp_path / "live")
    capture(LocalTree(tmp_path / "live"), catalogue(store))
    live.plan(8)
    live.commit(8)
    salt_state(tmp_path / "live")
    capture(LocalTree(tmp_path / "live"), catalogue(store))
    series = catalogue(store)
    series.note_drill(1, DrillResult(id="20261121T100000-a", ok=True, message="batch 8 ran", batch=8, state_rows=12))
    series.pin(1, Pin(reason="before the move", by="ann", at="2026-11-21T10:00:00+00:00"))
    series.hold(2, Hold(owner="deploy-7", reason="the way back", at="2026-11-21T10:00:00+00:00"))
    orphan = b"a pack of a capture that died"
    series.put_pack(hash_of(orphan), orphan)
    mark = Garbage(at="2026-11-21T10:00:00+00:00", packs=(hash_of(orphan),))
    store.create("snapshots/sales/totals/garbage/0a", seal(mark))
    return store


def test_what_is_whole_verifies(store: MemoryStore) -> None:
    """What is whole verifies."""
    found = verify(catalogue(store))
    assert (found.damaged, found.snapshots, found.packs) == ((), 2, 2)
    assert found.bytes == sum(pack.size for pack in catalogue(store).read(2).packs)


def test_any_flipped_byte_of_any_object_is_found_and_named(store: MemoryStore) -> None:
    """Any flipped byte of any object is found and named."""
    chance = random.Random(5)
    for key, value in sorted(store.values.items()):
        places = range(len(value)) if len(value) < 700 else sorted(chance.sample(range(len(value)), 300))
        for at in places:
            store.values[key] = value[:at] + bytes([value[at] ^ (1 << chance.randrange(8))]) + value[at + 1 :]
            found = verify(catalogue(store))
            assert found.damaged, f"{key} byte {at}"
            assert key in "".join(each.key + each.why for each in found.damaged)
        store.values[key] = value


def test_no_restore_from_a_damaged_object_becomes_visible(store: MemoryStore, tmp_path: Path) -> None:
    """No restore from a damaged object becomes visible."""
    series = catalogue(store)
    second = series.read(2)
    before = wanted(tmp_path / "live", 8)
    chance = random.Random(6)
    needed = [series.index_key(2), *(series.pack_key(each.name) for each in second.packs)]
    failed = whole = 0
    for key in needed:
        value = store.values[key]
        for at in chance.sample(range(len(value)), 60):
            store.values[key] = value[:at] + bytes([value[at] ^ 0x10]) + value[at + 1 :]
            try:
                restore(series, series.read(2), tmp_path / "back")
            except SnapshotDamaged:
                failed += 1
                assert not (tmp_path / "back").exists()
            else:
                # The byte belongs to another snapshot's chunk, which this one never reads.
                whole += 1
                assert files_below(tmp_path / "back") == before
                shutil.rmtree(tmp_path / "back")
        store.values[key] = value
    assert failed > whole
    assert not list(tmp_path.glob(".restoring*"))


def test_a_restore_of_the_only_snapshot_fails_for_every_flipped_byte_of_its_pack(tmp_path: Path) -> None:
    """A restore of the only snapshot fails for every flipped byte of its pack."""
    a_checkpoint(tmp_path / "live", "stateless", batches=2)
    store = MemoryStore()
    series = catalogue(store)
    snapshot = capture(LocalTree(tmp_path / "live"), series).snapshot
    key = series.pack_key(snapshot.packs[0].name)
    value = store.values[key]
    for at in range(len(value)):
        store.values[key] = value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
        with pytest.raises(SnapshotDamaged):
            restore(series, snapshot, tmp_path / "back")
        assert not (tmp_path / "back").exists()


def test_a_missing_or_short_pack_is_damage(store: MemoryStore, tmp_path: Path) -> None:
    """A missing or short pack is damage."""
    series = catalogue(store)
    key = series.pack_key(series.read(1).packs[0].name)
    value = store.values.pop(key)
    found = verify(series).damaged
    assert [each.snapshots for each in found] == [("s0001", "s0002")]
    with pytest.raises(SnapshotDamaged, match="is missing"):
        restore(series, series.read(2), tmp_path / "back")
    store.values[key] = value[: len(value) // 2]
    with pytest.raises(SnapshotDamaged):
        restore(series, series.read(1), tmp_path / "back")


def test_a_target_that_exists_is_left_alone(store: MemoryStore, tmp_path: Path) -> None:
    """A target that exists is left alone."""
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("there", "link"):
        with pytest.raises(InvalidInput, match="exists already"):
            restore(catalogue(store), catalogue(store).read(1), tmp_path / name)
    assert list((tmp_path / "there").iterdir()) == []


def test_a_disk_that_cannot_be_written_is_told_and_nothing_is_left(store: MemoryStore, tmp_path: Path) -> None:
    """A disk that cannot be written is told and nothing is left."""
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(PermanentError, match="cannot be restored"):
        restore(catalogue(store), catalogue(store).read(1), tmp_path / "file" / "back")


def test_a_disk_that_fills_up_is_told_and_nothing_is_left(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with the reason; the target is not there, and neither is a draft."""
    real, written = os.pwrite, 0

    def fill_up(file: int, data: bytes, offset: int) -> int:
        nonlocal written
        written += len(data)
        if written > 1000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data, offset)

    monkeypatch.setattr(os, "pwrite", fill_up)
    (tmp_path / "into").mkdir()
    with pytest.raises(PermanentError, match="No space left on device"):
        restore(catalogue(store), catalogue(store).read(2), tmp_path / "into" / "back")
    assert list((tmp_path / "into").iterdir()) == []


def test_a_store_that_fails_in_the_middle_of_a_restore_leaves_nothing(store: MemoryStore, tmp_path: Path) -> None:
    """A store that fails in the middle of a restore leaves nothing."""
    snapshot = catalogue(store).read(2)
    failing = FaultStore(store, unavailable(key=snapshot.packs[1].name))
    (tmp_path / "into").mkdir()
    with pytest.raises(StoreUnavailable):
        restore(catalogue(failing), snapshot, tmp_path / "into" / "back")
    assert list((tmp_path / "into").iterdir()) == []


def test_a_lost_record_can_be_read_from_the_snapshots_last_pack(store: MemoryStore) -> None:
    """A lost record can be read from the snapshot's last pack."""
    series = catalogue(store)
    second = series.read(2)
    key = series.pack_key(second.packs[-1].name)
    inside = index_of(store.values[key], where=key).snapshot
    assert inside is not None
    last = next(each for each in second.packs if each == second.packs[-1])
    found = msgspec.structs.replace(inside, number=2, packs=(*inside.packs[:-1], last))
    assert found == second


def test_a_snapshot_of_a_newer_format_is_told_as_such(store: MemoryStore) -> None:
    """A snapshot of a newer format is told as such."""
    series = catalogue(store)
    newer = msgspec.structs.replace(series.read(2), format=99)
    store.values[series.index_key(2)] = seal(newer, packed=True)
    with pytest.raises(FormatTooNew, match="has format 99"):
        series.read(2)


@pytest.mark.parametrize("path", ["../outside", "state/../../outside", "/outside", "a\0b", ".", "a//b", ""])
def test_a_file_name_that_leads_out_of_the_target_is_refused(store: MemoryStore, tmp_path: Path, path: str) -> None:
    """Nor is one taken that names no file."""
    snapshot = catalogue(store).read(1)
    first = msgspec.structs.replace(snapshot.files[0], path=path)
    evil = msgspec.structs.replace(snapshot, files=(first, *snapshot.files[1:]))
    with pytest.raises(SnapshotDamaged, match="not allowed"):
        restore(catalogue(store), evil, tmp_path / "into" / "back")
    assert not (tmp_path / "into").exists()


def test_an_unknown_snapshot_names_those_that_there_are(store: MemoryStore) -> None:
    """An unknown snapshot names those that there are."""
    with pytest.raises(NotFound, match="s0001, s0002"):
        catalogue(store).read(9)


def test_series_are_listed_and_their_names_checked(store: MemoryStore, tmp_path: Path) -> None:
    """Series are listed and their names checked."""
    adopted = "adopted/f1d59810-eaab-48e1-8081-cfb9a2991009"
    capture(LocalTree(tmp_path / "live"), Catalogue(store, adopted))
    assert list(list_series(store)) == [adopted, SERIES]
    for wrong in ("", "totals", "../x/y", "adopted/../x", "a/b/c", "A/b"):
        with pytest.raises(InvalidInput):
            check_series(wrong)
    for wrong in ("7", "s7", "s0000", "s0007/..", "r0007"):
        with pytest.raises(InvalidInput):
            snapshot_number(wrong)


def test_parts_of_a_pack_are_read_where_little_of_it_is_needed(tmp_path: Path) -> None:
    """Parts of a pack are read where little of it is needed."""
    live = a_checkpoint(tmp_path / "live", "hdfs", batches=3)
    store = MemoryStore()
    (tmp_path / "live/state/0/0/3.snapshot").write_bytes(random.Random(1).randbytes(2_000_000))
    capture(LocalTree(tmp_path / "live"), catalogue(store))
    for batch in range(3, 13):
        live.plan(batch)
        live.commit(batch, snapshot=batch == 12)
    salt_state(tmp_path / "live")
    second = capture(LocalTree(tmp_path / "live"), catalogue(store)).snapshot

    class Counting(MemoryStore):
        read_whole = 0

        def read(self, key: str) -> bytes:
            found = super().read(key)
            self.read_whole += len(found)
            return found

    counting = Counting()
    counting.values = store.values
    restore(catalogue(counting), second, tmp_path / "back")
    assert files_below(tmp_path / "back") == wanted(tmp_path / "live", 12)
    assert counting.read_whole < 100_000


def test_what_a_checkpoint_says_of_its_own_place_is_said_anew(tmp_path: Path) -> None:
    """Operator metadata of format 2 names schema files by full paths: a copy must not depend on where it came from."""
    a_checkpoint(tmp_path / "live", "format-2")
    metadata = tmp_path / "live/state/0/_metadata/v2/0"
    metadata.parent.mkdir(parents=True)
    schema = f"file:{tmp_path}/live/state/0/_stateSchema/default/0_x"
    stores = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": [schema]}]
    metadata.write_text("v2\n" + json.dumps({"operatorInfo": {"operatorName": "x"}, "stateStoreInfo": stores}))
    series = catalogue(MemoryStore())
    restore(series, capture(LocalTree(tmp_path / "live"), series).snapshot, tmp_path / "back")
    text = (tmp_path / "back/state/0/_metadata/v2/0").read_text()
    assert f"file:{tmp_path}/back/state/0/_stateSchema/default/0_x" in text
    assert f"{tmp_path}/live" not in text
