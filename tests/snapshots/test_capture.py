"""Tests capturing snapshots: their content, what a second one adds, and how a capture behaves while the checkpoint's
owner keeps writing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.fault_store import FaultStore, unavailable
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, NotFound, SnapshotsChanged, StoreUnavailable
from streamkeeper.model.records.snapshot import Stamp
from streamkeeper.snapshots.capture import SMALL_PACKS, CaptureProgress, Origin, capture
from streamkeeper.snapshots.restore import restore
from streamkeeper.stores.counting import CountingStore
from tests.checkpoints.tree_kinds import at
from tests.contracts.memory_store import MemoryStore
from tests.snapshots.series import KINDS, a_checkpoint, catalogue, files_below, salt_state, wanted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("kind_of_tree")
def test_a_restored_snapshot_is_the_closed_set_bit_for_bit(tmp_path: Path, kind: str) -> None:
    """A restored snapshot equals the closed set of its batch byte for byte, for every kind of state."""
    a_checkpoint(tmp_path / "live", kind)
    series = catalogue(MemoryStore())
    taken = capture(at(tmp_path / "live"), series, origin=Origin(version="v0001", release="r0002"))
    restore(series, taken.snapshot, LocalTree(tmp_path / "back"))
    assert files_below(tmp_path / "back") == wanted(tmp_path / "live", 7)
    assert (taken.snapshot.name, taken.snapshot.batch, taken.snapshot.release) == ("s0001", 7, "r0002")


@pytest.mark.usefixtures("kind_of_tree")
def test_the_plan_of_the_open_batch_belongs_to_a_snapshot(tmp_path: Path) -> None:
    """A snapshot contains the plan of the batch that is open when it is captured."""
    live = a_checkpoint(tmp_path / "live")
    live.plan(8)
    series = catalogue(MemoryStore())
    taken = capture(at(tmp_path / "live"), series)
    restore(series, taken.snapshot, LocalTree(tmp_path / "back"))
    assert taken.snapshot.open_batch == 8
    assert files_below(tmp_path / "back") == wanted(tmp_path / "live", 7, pending=True)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_snapshot_of_an_older_batch_contains_the_following_plan(tmp_path: Path) -> None:
    """A snapshot of an older batch contains the plan of the following batch."""
    a_checkpoint(tmp_path / "live", "hdfs")
    series = catalogue(MemoryStore())
    taken = capture(at(tmp_path / "live"), series, batch=5)
    restore(series, taken.snapshot, LocalTree(tmp_path / "back"))
    assert files_below(tmp_path / "back") == wanted(tmp_path / "live", 5, pending=True)


@pytest.mark.usefixtures("kind_of_tree")
def test_no_snapshot_is_captured_without_a_newly_committed_batch(tmp_path: Path) -> None:
    """If no batch was committed since the newest snapshot, a capture takes none and needs two requests."""
    a_checkpoint(tmp_path / "live")
    store = CountingStore(MemoryStore())
    first = capture(at(tmp_path / "live"), catalogue(store))
    before = store.requests
    again = capture(at(tmp_path / "live"), catalogue(store))
    assert (again.taken, again.snapshot) == (False, first.snapshot)
    assert store.requests - before == 2


@pytest.mark.usefixtures("kind_of_tree")
def test_a_second_snapshot_stores_only_what_is_new_in_one_object(tmp_path: Path) -> None:
    """A second snapshot stores only new content, in one pack and one record, and can be restored."""
    live = a_checkpoint(tmp_path / "live")
    store = MemoryStore()
    first = capture(at(tmp_path / "live"), catalogue(store)).snapshot
    keys = set(store.values)
    live.plan(8)
    live.commit(8)
    salt_state(tmp_path / "live")
    second = capture(at(tmp_path / "live"), catalogue(store)).snapshot
    fresh = set(store.values) - keys
    assert sorted(key.split("/")[3] for key in fresh) == ["index", "packs"]
    assert second.stored < first.stored
    restore(catalogue(store), second, LocalTree(tmp_path / "back"))
    assert files_below(tmp_path / "back") == wanted(tmp_path / "live", 8)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_snapshot_of_another_checkpoint_version_stores_no_content_twice(tmp_path: Path) -> None:
    """A snapshot of a copied checkpoint version stores only the content that differs, and can be restored."""
    a_checkpoint(tmp_path / "v0001")
    store = MemoryStore()
    capture(at(tmp_path / "v0001"), catalogue(store))
    shutil.copytree(tmp_path / "v0001", tmp_path / "v0002")
    (tmp_path / "v0002" / "metadata").write_text('{"id":"00000000-0000-0000-0000-00000000000a"}')
    second = capture(at(tmp_path / "v0002"), catalogue(store)).snapshot
    assert second.stored < 200
    restore(catalogue(store), second, LocalTree(tmp_path / "back"))
    assert files_below(tmp_path / "back") == wanted(tmp_path / "v0002", 7)


@pytest.mark.usefixtures("kind_of_tree")
def test_an_overwritten_file_of_the_same_name_and_size_is_read_again(tmp_path: Path) -> None:
    """A file that was overwritten with the same name and size is read anew by the next capture."""
    live = a_checkpoint(tmp_path / "live", "rocksdb")
    store = MemoryStore()
    capture(at(tmp_path / "live"), catalogue(store))
    sst = next((tmp_path / "live/state/0/0/SSTs").glob("000008*.sst"))
    changed = bytes(reversed(sst.read_bytes()))
    draft = sst.with_name("draft")
    draft.write_bytes(changed)
    draft.rename(sst)
    live.plan(8)
    second = capture(at(tmp_path / "live"), catalogue(store), batch=7).snapshot
    restore(catalogue(store), second, LocalTree(tmp_path / "back"))
    assert (tmp_path / "back" / sst.relative_to(tmp_path / "live")).read_bytes() == changed


class _BusyTree(LocalTree):
    """A checkpoint whose owner commits a batch and deletes the oldest ones each time a few files were read."""

    def __init__(self, root: Path, owner: Iterator[None], every: int) -> None:
        super().__init__(root)
        self._owner, self._every, self._reads = owner, every, 0

    def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
        self._reads += 1
        if self._reads % self._every == 0:
            next(self._owner, None)
        return super().parts(path, size, expected)


def _owner(root: Path, first: int, last: int) -> Iterator[None]:
    tree = a_checkpoint(root, "hdfs", batches=first)
    yield
    for batch in range(first, last):
        tree.plan(batch)
        tree.commit(batch, snapshot=True)
        salt_state(root)
        for old in root.glob("state/0/*/[0-9]*"):
            if int(old.stem) < batch:
                old.unlink()
        yield


def test_a_capture_continues_with_a_newer_batch_if_spark_deletes_files(tmp_path: Path) -> None:
    """If Spark deletes files of a batch during a capture, the capture continues with a newer batch and its snapshot is
    complete.
    """
    owner = _owner(tmp_path / "live", 8, 40)
    next(owner)
    series = catalogue(MemoryStore())
    taken = capture(_BusyTree(tmp_path / "live", owner, every=1), series)
    restore(series, taken.snapshot, LocalTree(tmp_path / "back"))
    assert taken.attempts > 1
    assert taken.snapshot.batch > 7
    back = files_below(tmp_path / "back")
    assert back == wanted(tmp_path / "back", taken.snapshot.batch, pending=taken.snapshot.pending)


def test_a_capture_whose_files_are_always_deleted_raises_checkpoint_changed(tmp_path: Path) -> None:
    """A capture whose files are deleted at every attempt raises ``CheckpointChanged`` with the batch and the file, and
    lists no snapshot.
    """
    a_checkpoint(tmp_path / "live", "hdfs", batches=8)

    class Emptied(LocalTree):
        def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
            raise FileNotFoundError(2, "deleted by Spark", path)

    series = catalogue(MemoryStore())
    with pytest.raises(CheckpointChanged, match=r"^Spark deletes batch 7 faster than it can be read: \S+$"):
        capture(Emptied(tmp_path / "live"), series)
    assert series.numbers() == []


def test_a_repeated_attempt_does_not_read_files_of_an_earlier_attempt_again(tmp_path: Path) -> None:
    """A repeated attempt of a capture does not read again the files that an earlier attempt has read, so that it
    overtakes a clean-up of nearly the same speed.
    """
    owner = _owner(tmp_path / "live", 8, 40)
    next(owner)

    class Counting(_BusyTree):
        seen: list[tuple[str, Stamp]] = []

        def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
            self.seen.append((path, expected))
            return super().parts(path, size, expected)

    tree = Counting(tmp_path / "live", owner, every=1)
    assert capture(tree, catalogue(MemoryStore())).attempts > 1
    finished = [each for each in tree.seen if each[0].startswith(("metadata", "sources/"))]
    assert len(finished) == len(set(finished))


def test_a_file_overwritten_while_it_is_read_is_never_part_of_a_snapshot(tmp_path: Path) -> None:
    """A file that is overwritten each time while it is read fails the capture, and no snapshot is recorded."""
    a_checkpoint(tmp_path / "live", "hdfs", batches=7)

    class Overwriting(LocalTree):
        def stamp(self, path: str) -> Stamp:
            found = super().stamp(path)
            if path.endswith("7.delta"):
                target = self.root / path
                target.with_name("draft").write_bytes(target.read_bytes())
                target.with_name("draft").rename(target)
            return found

    store = MemoryStore()
    with pytest.raises(CheckpointChanged, match="changed while it was being read"):
        capture(Overwriting(tmp_path / "live"), catalogue(store))
    assert not [key for key in store.values if "/index/" in key]


def test_a_file_overwritten_after_it_was_read_is_read_again(tmp_path: Path) -> None:
    """A file that is overwritten after it was read is read anew: the final check of a capture finds it, so that all
    files are of one moment.
    """
    a_checkpoint(tmp_path / "live", "hdfs", batches=7)
    delta = tmp_path / "live/state/0/1/7.delta"
    changed = bytes(reversed(delta.read_bytes()))

    class Overwriting(LocalTree):
        def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
            if path == "metadata" and delta.read_bytes() != changed:
                delta.with_name("draft").write_bytes(changed)
                delta.with_name("draft").rename(delta)
            return super().parts(path, size, expected)

    series = catalogue(MemoryStore())
    taken = capture(Overwriting(tmp_path / "live"), series)
    restore(series, taken.snapshot, LocalTree(tmp_path / "back"))
    assert taken.attempts == 2
    assert (tmp_path / "back/state/0/1/7.delta").read_bytes() == changed


def test_what_looks_damaged_while_spark_commits_is_read_again(tmp_path: Path) -> None:
    """A file that seems damaged while Spark commits is read anew; damage counts only if the last committed batch stayed
    the same.
    """
    owner = _owner(tmp_path / "live", 8, 40)
    next(owner)

    class HalfRead(LocalTree):
        damaged = 0

        def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
            if not HalfRead.damaged:
                HalfRead.damaged += 1
                next(owner)
                raise CheckpointDamaged(f"{path} ends too early")
            return super().parts(path, size, expected)

    taken = capture(HalfRead(tmp_path / "live"), catalogue(MemoryStore()))
    assert (taken.attempts, taken.snapshot.batch) == (2, 8)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_missing_state_file_raises_checkpoint_damaged_and_nothing_is_stored(tmp_path: Path) -> None:
    """A checkpoint without a required state file raises ``CheckpointDamaged`` at once, and nothing is stored."""
    a_checkpoint(tmp_path / "live", "hdfs", batches=7)
    (tmp_path / "live/state/0/1/7.delta").unlink()
    store = MemoryStore()
    with pytest.raises(CheckpointDamaged, match="lacks version 7"):
        capture(at(tmp_path / "live"), catalogue(store))
    assert store.values == {}


@pytest.mark.usefixtures("kind_of_tree")
def test_a_capture_without_a_checkpoint_or_committed_batch_is_refused(tmp_path: Path) -> None:
    """A directory that is no checkpoint, a checkpoint without a committed batch and a missing batch number are refused
    with the reason.
    """
    series = catalogue(MemoryStore())
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="is not a checkpoint"):
        capture(at(tmp_path / "empty"), series)
    a_checkpoint(tmp_path / "young", batches=0).plan(0)
    with pytest.raises(NotFound, match="no committed batch yet"):
        capture(at(tmp_path / "young"), series)
    a_checkpoint(tmp_path / "live")
    with pytest.raises(NotFound, match="no committed batch 70"):
        capture(at(tmp_path / "live"), series, batch=70)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_store_that_fails_in_the_middle_leaves_no_snapshot_in_the_list(tmp_path: Path) -> None:
    """If the store fails in the middle of a capture, no snapshot is listed."""
    a_checkpoint(tmp_path / "live")
    store = MemoryStore()
    failing = FaultStore(store, unavailable("create", key="/index/"))
    with pytest.raises(StoreUnavailable, match="the store is down"):
        capture(at(tmp_path / "live"), catalogue(failing))
    assert catalogue(store).numbers() == []


@pytest.mark.usefixtures("kind_of_tree")
def test_a_capture_that_would_reuse_a_deleted_pack_fails_before_its_record(tmp_path: Path) -> None:
    """A capture that would reuse a deleted pack fails before it publishes its record."""
    live = a_checkpoint(tmp_path / "live")
    store = MemoryStore()
    first = capture(at(tmp_path / "live"), catalogue(store)).snapshot
    del store.values[catalogue(store).pack_key(first.packs[0].name)]
    live.plan(8)
    live.commit(8)
    with pytest.raises(SnapshotsChanged, match="a prune deleted it"):
        capture(at(tmp_path / "live"), catalogue(store))
    assert catalogue(store).numbers() == [1]


@pytest.mark.usefixtures("kind_of_tree")
def test_two_concurrent_captures_get_different_numbers(tmp_path: Path) -> None:
    """Two concurrent captures get different numbers, and both snapshots are listed."""
    a_checkpoint(tmp_path / "live")
    store = MemoryStore()

    def beat(call: str, key: str) -> None:
        if call == "create" and "/index/" in key and not catalogue(store).numbers():
            capture(at(tmp_path / "live"), catalogue(store))

    taken = capture(at(tmp_path / "live"), catalogue(FaultStore(store, beat)))
    assert taken.snapshot.name == "s0002"
    assert catalogue(store).numbers() == [1, 2]


@pytest.mark.usefixtures("kind_of_tree")
def test_large_content_is_split_and_packed_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large content is split into several packs, its progress is reported to the end, and it is restored completely."""
    monkeypatch.setattr("streamkeeper.snapshots.packs.PACK_BYTES", 500)
    monkeypatch.setattr("streamkeeper.snapshots.capture.CHUNK_BYTES", 120)
    a_checkpoint(tmp_path / "live")
    series = catalogue(MemoryStore())
    shown: list[CaptureProgress] = []
    snapshot = capture(at(tmp_path / "live"), series, show=shown.append).snapshot
    assert len(snapshot.packs) > 2
    assert (shown[-1].files, shown[-1].bytes) == (shown[-1].of_files, shown[-1].of_bytes)
    restore(series, snapshot, LocalTree(tmp_path / "back"))
    assert files_below(tmp_path / "back") == wanted(tmp_path / "live", 7)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_capture_after_a_damaged_record_stores_everything_again(tmp_path: Path) -> None:
    """After a damaged record the next capture stores everything anew under the next number, and its snapshot can be
    restored.
    """
    live = a_checkpoint(tmp_path / "live")
    store = MemoryStore()
    capture(at(tmp_path / "live"), catalogue(store))
    store.values[catalogue(store).index_key(1)] = b"not what was stored"
    live.plan(8)
    live.commit(8)
    second = capture(at(tmp_path / "live"), catalogue(store)).snapshot
    assert second.name == "s0002"
    restore(catalogue(store), second, LocalTree(tmp_path / "back"))
    assert files_below(tmp_path / "back") == wanted(tmp_path / "live", 8)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_large_pack_that_is_hardly_needed_is_not_reused(tmp_path: Path) -> None:
    """A capture does not reuse a large pack of which only a small part is still needed; it stores that part anew."""
    live = a_checkpoint(tmp_path / "live", "hdfs")
    store = MemoryStore()
    (tmp_path / "live/state/0/0/8.snapshot").write_bytes(os.urandom(3_000_000))
    first = capture(at(tmp_path / "live"), catalogue(store)).snapshot
    live.plan(8)
    live.commit(8, snapshot=True)
    second = capture(at(tmp_path / "live"), catalogue(store)).snapshot
    assert {each.path for each in first.files} & {each.path for each in second.files}
    assert not set(first.packs) & set(second.packs)


@pytest.mark.usefixtures("kind_of_tree")
def test_a_snapshot_never_builds_on_more_than_a_few_small_packs(tmp_path: Path) -> None:
    """A snapshot never uses more than ``SMALL_PACKS`` small packs of earlier snapshots, however many captures precede
    it.
    """
    live = a_checkpoint(tmp_path / "live", "changelog", batches=4)
    store = MemoryStore()
    for batch in range(4, 40):
        live.plan(batch)
        live.commit(batch)
        salt_state(tmp_path / "live")
        snapshot = capture(at(tmp_path / "live"), catalogue(store)).snapshot
        assert len(snapshot.packs) <= SMALL_PACKS + 1
    restore(catalogue(store), snapshot, LocalTree(tmp_path / "back"))
    assert files_below(tmp_path / "back") == wanted(tmp_path / "live", 39)
