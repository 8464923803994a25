"""Tests restoring and verifying snapshots: every flipped byte is found, and no partial checkpoint becomes visible."""

from __future__ import annotations

import errno
import json
import os
import random
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import msgspec
import pytest

from harness.fault_store import FaultStore, unavailable
from streamkeeper.checkpoints.publishing import Content, is_published
from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.errors import (
    CheckpointChanged,
    FormatTooNew,
    InvalidInput,
    NotFound,
    PermanentError,
    SnapshotDamaged,
    StoreUnavailable,
)
from streamkeeper.model.records.snapshot import DrillResult, Garbage, Hold, Pin, Snapshot, check_series, snapshot_number
from streamkeeper.snapshots import restore as restoring
from streamkeeper.snapshots.capture import capture
from streamkeeper.snapshots.catalogue import Catalogue, list_series
from streamkeeper.snapshots.packs import index_of
from streamkeeper.snapshots.restore import restore
from streamkeeper.snapshots.sealing import hash_of, seal
from streamkeeper.snapshots.verify import verify
from tests.checkpoints.tree_kinds import at, contents
from tests.contracts.memory_store import MemoryStore
from tests.snapshots.series import SERIES, a_checkpoint, catalogue, files_below, salt_state, wanted


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    """A store with two snapshots of one checkpoint and every kind of record."""
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


def test_verifying_an_undamaged_series_finds_no_damage(store: MemoryStore) -> None:
    """Verifying an undamaged series finds no damage and reports its snapshots, packs and bytes."""
    found = verify(catalogue(store))
    assert (found.damaged, found.snapshots, found.packs) == ((), 2, 2)
    assert found.bytes == sum(pack.size for pack in catalogue(store).read(2).packs)


def test_any_flipped_byte_of_any_object_is_found_and_named(store: MemoryStore) -> None:
    """Verifying finds a flipped byte in any object of the series and names the object."""
    chance = random.Random(5)
    for key, value in sorted(store.values.items()):
        places = range(len(value)) if len(value) < 700 else sorted(chance.sample(range(len(value)), 300))
        for place in places:
            store.values[key] = value[:place] + bytes([value[place] ^ (1 << chance.randrange(8))]) + value[place + 1 :]
            found = verify(catalogue(store))
            assert found.damaged, f"{key} byte {place}"
            assert key in "".join(each.key + each.why for each in found.damaged)
        store.values[key] = value


@pytest.mark.usefixtures("kind_of_tree")
def test_no_restore_from_a_damaged_object_becomes_visible(store: MemoryStore, tmp_path: Path) -> None:
    """A restore from a damaged object publishes no checkpoint, and a later restore from intact objects continues with
    the files that it left.
    """
    series = catalogue(store)
    second = series.read(2)
    before = wanted(tmp_path / "live", 8)
    chance = random.Random(6)
    needed = [series.index_key(2), *(series.pack_key(each.name) for each in second.packs)]
    failed = whole = 0
    back = at(tmp_path / "back")
    for key in needed:
        value = store.values[key]
        for place in chance.sample(range(len(value)), 60):
            store.values[key] = value[:place] + bytes([value[place] ^ 0x10]) + value[place + 1 :]
            try:
                restore(series, series.read(2), back)
            except SnapshotDamaged:
                failed += 1
                assert not is_published(back)
            else:
                # The byte belongs to another snapshot's chunk, or to what the attempt before has read and written.
                whole += 1
                assert contents(tmp_path / "back") == before
                back.delete(back.look().files)
        store.values[key] = value
    assert failed > whole
    restore(series, series.read(2), back)
    assert contents(tmp_path / "back") == before


@pytest.mark.usefixtures("kind_of_tree")
def test_a_restore_of_the_only_snapshot_fails_for_every_flipped_byte_of_its_pack(tmp_path: Path) -> None:
    """A restore fails for every flipped byte in the only pack of its snapshot, and leaves no file."""
    a_checkpoint(tmp_path / "live", "stateless", batches=2)
    store = MemoryStore()
    series = catalogue(store)
    snapshot = capture(LocalTree(tmp_path / "live"), series).snapshot
    key = series.pack_key(snapshot.packs[0].name)
    value = store.values[key]
    for place in range(len(value)):
        store.values[key] = value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]
        with pytest.raises(SnapshotDamaged):
            restore(series, snapshot, at(tmp_path / "back"))
        assert contents(tmp_path / "back") == {}


@pytest.mark.usefixtures("kind_of_tree")
def test_a_missing_or_short_pack_is_damage(store: MemoryStore, tmp_path: Path) -> None:
    """A missing or truncated pack is reported as damage with the snapshots that need it, and their restore fails."""
    series = catalogue(store)
    key = series.pack_key(series.read(1).packs[0].name)
    value = store.values.pop(key)
    found = verify(series).damaged
    assert [each.snapshots for each in found] == [("s0001", "s0002")]
    with pytest.raises(SnapshotDamaged, match="is missing"):
        restore(series, series.read(2), at(tmp_path / "back"))
    store.values[key] = value[: len(value) // 2]
    with pytest.raises(SnapshotDamaged):
        restore(series, series.read(1), at(tmp_path / "other"))


def test_a_target_that_exists_is_left_alone(store: MemoryStore, tmp_path: Path) -> None:
    """A restore refuses a target that is a file, a link, an existing checkpoint, the restored one itself or a folder
    with foreign files, and changes nothing in it.
    """
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "used").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "used")
    series = catalogue(store)
    restore(series, series.read(1), LocalTree(tmp_path / "restored"))
    for name in ("file", "link", "linked", "live", "restored"):
        with pytest.raises(InvalidInput, match="already exists"):
            restore(series, series.read(1), LocalTree(tmp_path / name))
    for path, content in (("notes", "mine"), ("offsets/7", "v1")):
        (tmp_path / "used" / path).parent.mkdir(exist_ok=True)
        (tmp_path / "used" / path).write_text(content)
        with pytest.raises(InvalidInput):
            restore(series, series.read(1), LocalTree(tmp_path / "used"))
        assert files_below(tmp_path / "used")[path] == content.encode()
        assert not (tmp_path / "used" / "metadata").exists()
        (tmp_path / "used" / path).unlink()
    restore(series, series.read(1), LocalTree(tmp_path / "used"))
    assert files_below(tmp_path / "used") == files_below(tmp_path / "restored")


def test_a_restore_to_a_place_that_cannot_be_created_fails(store: MemoryStore, tmp_path: Path) -> None:
    """A restore to a place that cannot be created fails with a ``PermanentError``."""
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(PermanentError, match="cannot be restored"):
        restore(catalogue(store), catalogue(store).read(1), LocalTree(tmp_path / "file" / "back"))


@pytest.mark.usefixtures("kind_of_tree")
def test_a_restore_to_a_full_disk_fails_and_publishes_no_checkpoint(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore to a full disk fails with the reason and publishes no checkpoint; once there is room, a retry continues
    with the files that it left.
    """
    back, series = at(tmp_path / "back"), catalogue(store)
    create, room = back.create, iter(range(10))

    def fill_up(path: str, content: Iterable[bytes]) -> None:
        if next(room, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        create(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(back, "create", fill_up)
        with pytest.raises(PermanentError, match="No space left on device"):
            restore(series, series.read(2), back)
    assert len(contents(tmp_path / "back")) == 10
    assert not is_published(back)
    restore(series, series.read(2), back)
    assert contents(tmp_path / "back") == wanted(tmp_path / "live", 8)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_store_that_fails_in_the_middle_of_a_restore_leaves_no_checkpoint(store: MemoryStore, tmp_path: Path) -> None:
    """A store that fails during a restore leaves files but no published checkpoint, and a retry continues with these
    files.
    """
    series = catalogue(store)
    snapshot = series.read(2)
    failing = FaultStore(store, unavailable(key=snapshot.packs[1].name))
    with pytest.raises(StoreUnavailable):
        restore(catalogue(failing), snapshot, at(tmp_path / "back"))
    assert contents(tmp_path / "back")
    assert not is_published(at(tmp_path / "back"))
    restore(series, snapshot, at(tmp_path / "back"))
    assert contents(tmp_path / "back") == wanted(tmp_path / "live", 8)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_restore_killed_before_any_file_leaves_no_checkpoint(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore that is killed before any of its files leaves no checkpoint, because the metadata is created last; the
    next attempt completes it and writes no file twice.
    """
    series = catalogue(store)
    whole = wanted(tmp_path / "live", 8)
    for nth in range(len(whole) + 1):
        check_killed(series, at(tmp_path / f"v{nth}"), whole, nth, monkeypatch)


def check_killed(
    series: Catalogue, target: Tree, whole: dict[str, bytes], nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert that a restore which is killed after ``nth`` files publishes nothing, and that the next one completes
    it.
    """
    create, made = target.create, list[str]()

    class Killed(BaseException):
        pass

    def mortal(path: str, content: Iterable[bytes]) -> None:
        with lock:
            if len(made) == nth:
                raise Killed
            create(path, content)
            made.append(path)

    lock = Lock()
    with monkeypatch.context() as patch:
        patch.setattr(target, "create", mortal)
        if nth < len(whole):
            with pytest.raises(Killed):
                restore(series, series.read(2), target)
            assert not is_published(target)
            assert "metadata" not in made
        else:
            restore(series, series.read(2), target)
            assert made[-1] == "metadata"
            return
    made_before, made[:] = [*made], []
    patched = lambda path, content: (create(path, content), made.append(path))  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(target, "create", patched)
        restore(series, series.read(2), target)
    assert sorted([*made_before, *made]) == sorted(whole)
    assert {path: target.read(path) for path in target.look().files} == whole


def test_a_restore_that_creates_the_metadata_first_is_found_out(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: if a restore creates the metadata first, a kill afterwards leaves a published checkpoint with
    missing files, and the check finds it.
    """
    series = catalogue(store)

    def first(target: Tree, paths: Iterable[str], content: Content, **rest: object) -> None:
        for path in sorted(paths, key=lambda path: path != "metadata"):
            target.create(path, content(path))

    monkeypatch.setattr(restoring, "publish_from", first)
    with pytest.raises(AssertionError):
        check_killed(series, LocalTree(tmp_path / "v2"), wanted(tmp_path / "live", 8), 3, monkeypatch)


@pytest.mark.usefixtures("kind_of_tree")
def test_two_restores_at_once_make_one_checkpoint(store: MemoryStore, tmp_path: Path) -> None:
    """Concurrent restores to one place produce one complete checkpoint: at least one succeeds, and the others either
    succeed or report that the target already exists.
    """
    series, back = catalogue(store), at(tmp_path / "back")

    def one(_: int) -> str:
        try:
            restore(series, series.read(2), back)
        except InvalidInput as error:
            return error.message
        return ""

    with ThreadPoolExecutor(max_workers=4) as restores:
        told = list(restores.map(one, range(4)))
    assert "" in told
    assert all(not each or "already exists" in each for each in told)
    assert contents(tmp_path / "back") == wanted(tmp_path / "live", 8)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_restore_whose_files_are_deleted_before_it_finishes_publishes_nothing(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a file that a restore has written is deleted before it finishes, as by a prune during a long freeze, nothing
    is published; a retry completes the checkpoint.
    """
    series, back = catalogue(store), at(tmp_path / "back")
    create = back.create

    def lose(path: str, content: Iterable[bytes]) -> None:
        create(path, content)
        if path == "offsets/8":
            back.delete([path])

    with monkeypatch.context() as patch:
        patch.setattr(back, "create", lose)
        with pytest.raises(CheckpointChanged, match="offsets/8 was removed"):
            restore(series, series.read(2), back)
    assert not is_published(back)
    restore(series, series.read(2), back)
    assert contents(tmp_path / "back") == wanted(tmp_path / "live", 8)


def test_a_lost_record_can_be_read_from_the_snapshots_last_pack(store: MemoryStore) -> None:
    """The record of a snapshot can be recovered from its last pack."""
    series = catalogue(store)
    second = series.read(2)
    key = series.pack_key(second.packs[-1].name)
    inside = index_of(store.values[key], where=key).snapshot
    assert inside is not None
    last = next(each for each in second.packs if each == second.packs[-1])
    found = msgspec.structs.replace(inside, number=2, packs=(*inside.packs[:-1], last))
    assert found == second


def test_reading_a_snapshot_of_a_newer_format_raises_format_too_new(store: MemoryStore) -> None:
    """Reading a snapshot of a newer format raises ``FormatTooNew`` with the format's number."""
    series = catalogue(store)
    newer = msgspec.structs.replace(series.read(2), format=99)
    store.values[series.index_key(2)] = seal(newer, packed=True)
    with pytest.raises(FormatTooNew, match="has format 99"):
        series.read(2)


@pytest.mark.parametrize("path", ["../outside", "state/../../outside", "/outside", "a\0b", ".", "a//b", ""])
def test_a_file_name_that_leads_out_of_the_target_is_refused(store: MemoryStore, tmp_path: Path, path: str) -> None:
    """A snapshot with a path that leads out of the target or that names no file is refused as damaged, and nothing is
    created.
    """
    snapshot = catalogue(store).read(1)
    first = msgspec.structs.replace(snapshot.files[0], path=path)
    evil = msgspec.structs.replace(snapshot, files=(first, *snapshot.files[1:]))
    with pytest.raises(SnapshotDamaged, match="not allowed"):
        restore(catalogue(store), evil, LocalTree(tmp_path / "into" / "back"))
    assert not (tmp_path / "into").exists()


def test_an_unknown_snapshot_names_those_that_there_are(store: MemoryStore) -> None:
    """The error for an unknown snapshot lists the existing ones."""
    with pytest.raises(NotFound, match="s0001, s0002"):
        catalogue(store).read(9)


def test_series_are_listed_and_their_names_checked(store: MemoryStore, tmp_path: Path) -> None:
    """All series of a store are listed, and malformed names of series and snapshots are refused."""
    adopted = "adopted/f1d59810-eaab-48e1-8081-cfb9a2991009"
    capture(LocalTree(tmp_path / "live"), Catalogue(store, adopted))
    assert list(list_series(store)) == [adopted, SERIES]
    for wrong in ("", "totals", "../x/y", "adopted/../x", "a/b/c", "A/b"):
        with pytest.raises(InvalidInput):
            check_series(wrong)
    for wrong in ("7", "s7", "s0000", "s0007/..", "r0007"):
        with pytest.raises(InvalidInput):
            snapshot_number(wrong)


LARGE = "state/0/0/3.snapshot"


def little_of_a_large_pack(root: Path) -> tuple[MemoryStore, Snapshot]:
    """Return a store with a snapshot of the checkpoint ``live``, and that snapshot without its one large file, which
    shares the only pack.
    """
    a_checkpoint(root / "live", "hdfs", batches=3)
    store = MemoryStore()
    (root / "live" / LARGE).write_bytes(random.Random(1).randbytes(2_000_000))
    taken = capture(LocalTree(root / "live"), catalogue(store)).snapshot
    return store, msgspec.structs.replace(taken, files=tuple(file for file in taken.files if file.path != LARGE))


@pytest.mark.usefixtures("kind_of_tree")
def test_parts_of_a_pack_are_read_where_little_of_it_is_needed(tmp_path: Path) -> None:
    """If a restore needs little of a large pack, it reads only those parts and not the whole pack."""
    store, snapshot = little_of_a_large_pack(tmp_path)

    class Counting(MemoryStore):
        read_whole = 0

        def read(self, key: str) -> bytes:
            found = super().read(key)
            self.read_whole += len(found)
            return found

    counting = Counting()
    counting.values = store.values
    restore(catalogue(counting), snapshot, at(tmp_path / "back"))
    assert {**contents(tmp_path / "back"), LARGE: (tmp_path / "live" / LARGE).read_bytes()} == wanted(
        tmp_path / "live", 2
    )
    assert counting.read_whole < 100_000


def test_a_flipped_byte_in_a_part_of_a_pack_is_found(tmp_path: Path) -> None:
    """A flipped byte in a pack that is read in parts is found by the hash of its chunk, and nothing is published.

    Negative control: with the byte restored, the restore succeeds.
    """
    store, snapshot = little_of_a_large_pack(tmp_path)
    chunk = next(chunk for file in snapshot.files for chunk in file.chunks if chunk.stored == chunk.size)
    (key,) = (catalogue(store).pack_key(pack.name) for pack in snapshot.packs)
    whole = store.values[key]
    store.values[key] = whole[: chunk.at] + bytes([whole[chunk.at] ^ 1]) + whole[chunk.at + 1 :]
    with pytest.raises(SnapshotDamaged, match="the hash of a chunk differs"):
        restore(catalogue(store), snapshot, LocalTree(tmp_path / "back"))
    assert not is_published(LocalTree(tmp_path / "back"))
    store.values[key] = whole
    restore(catalogue(store), snapshot, LocalTree(tmp_path / "back"))


@pytest.mark.usefixtures("kind_of_tree")
def test_a_restore_rewrites_full_paths_in_operator_metadata_to_the_target(tmp_path: Path) -> None:
    """A restore rewrites the full paths of schema files in operator metadata of format 2 to the target, so that the
    copy does not depend on its origin.
    """
    a_checkpoint(tmp_path / "live", "format-2")
    metadata = tmp_path / "live/state/0/_metadata/v2/0"
    metadata.parent.mkdir(parents=True)
    schema = f"file:{tmp_path}/live/state/0/_stateSchema/default/0_x"
    stores = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": [schema]}]
    metadata.write_text("v2\n" + json.dumps({"operatorInfo": {"operatorName": "x"}, "stateStoreInfo": stores}))
    series = catalogue(MemoryStore())
    back = at(tmp_path / "back")
    restore(series, capture(LocalTree(tmp_path / "live"), series).snapshot, back)
    text = back.read("state/0/_metadata/v2/0").decode()
    assert f"{back.location}/state/0/_stateSchema/default/0_x" in text
    assert f"{tmp_path}/live" not in text
