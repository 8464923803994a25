"""Tests the identity of an installation: a copied or moved store is detected and can be declared a new or a moved
installation.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streamkeeper.errors import OperationRefused, RegistryDamaged, StoreUnavailable
from streamkeeper.model.records.installation_record import InstallationRecord
from streamkeeper.model.records.journal_records import OperationStarted
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.registry import installations
from streamkeeper.registry.installations import (
    begin_anew,
    claim_snapshots,
    find_misplaced,
    newest_record,
    note_moved,
    open_installation,
    read_installation,
)
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore
from streamkeeper.stores.read_only import ReadOnlyStore


class Place:
    """A home directory that contains its store, as by default."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = LocalStore(home / "store")

    def open(self) -> InstallationRecord:
        return open_installation(self.store, str(self.home))

    def copied_to(self, home: Path) -> Place:
        shutil.copytree(self.home, home, symlinks=True)
        return Place(home)


@pytest.fixture
def original(tmp_path: Path) -> Place:
    """An installation that has been opened once."""
    place = Place(tmp_path / "original")
    place.open()
    return place


def test_an_installation_gets_its_id_once(original: Place) -> None:
    """Every opening of an installation returns the same id, and reading the record of an empty store creates none."""
    first = original.open()
    assert first == original.open() == read_installation(original.store)
    assert (first.number, first.first, first.place) == (1, first.id, original.store.url)
    assert not first.is_a_copy
    empty = LocalStore(original.home / "other")
    assert read_installation(empty) is None
    assert list(empty.list("installation/")) == []


def test_two_processes_that_open_a_new_store_at_once_get_one_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When two processes open a new store at once, the loser uses the winner's record."""
    place = Place(tmp_path / "home")
    read = installations.read_installation
    winners: list[InstallationRecord] = []

    def late(store: LocalStore) -> InstallationRecord | None:
        found = read(store)
        if not winners:
            winners.append(installations._record(store, 1, "of the winner", "", ""))
            return None
        return found

    monkeypatch.setattr(installations, "read_installation", late)
    assert place.open().id == "of the winner"


def test_a_copied_installation_is_refused_with_its_original_location(original: Place, tmp_path: Path) -> None:
    """A copied installation is refused because its record names the original location, and the original continues to
    work.
    """
    copy = original.copied_to(tmp_path / "copy")
    with pytest.raises(OperationRefused, match=f"copied or moved: its record names the location {original.store.url}"):
        copy.open()
    assert original.open().number == 1


def test_a_copied_home_of_a_remote_store_is_refused(tmp_path: Path) -> None:
    """A copied home whose store lies elsewhere is refused by the location in the home's record; once declared new, it
    is one more home of the same installation.
    """
    store, one, other = LocalStore(tmp_path / "store"), tmp_path / "one", tmp_path / "other"
    found = open_installation(store, str(one))
    shutil.copytree(one, other)
    with pytest.raises(
        OperationRefused, match=f"home {other} was copied or moved: its record names the location {one}"
    ):
        open_installation(store, str(other))
    assert begin_anew(store, str(other), by="ada", reason="a second worker") == found
    assert open_installation(store, str(other)) == open_installation(store, str(one)) == found


def test_a_moved_installation_opens_through_a_link_at_its_old_location(original: Place, tmp_path: Path) -> None:
    """A moved installation opens without a declaration if a symbolic link at the old location leads to it."""
    moved = tmp_path / "moved"
    original.home.rename(moved)
    with pytest.raises(OperationRefused):
        Place(moved).open()
    original.home.symlink_to(moved)
    assert Place(moved).open().number == 1


def test_a_copy_declared_new_has_its_own_id_and_no_earlier_records(original: Place, tmp_path: Path) -> None:
    """A copy that is declared new has its own id, and earlier records, with the former id or without one, do not belong
    to it.
    """
    copy = original.copied_to(tmp_path / "copy")
    made = begin_anew(copy.store, str(copy.home), by="ada", reason="staging")
    assert copy.open() == made
    assert (made.is_a_copy, made.first) == (True, original.open().id)
    assert [made.is_mine(each) for each in ("", made.first, made.id)] == [False, False, True]
    assert [original.open().is_mine(each) for each in ("", made.first, made.id)] == [True, True, False]
    again = copy.copied_to(tmp_path / "again")
    with pytest.raises(OperationRefused):
        again.open()


def test_an_operation_open_in_the_original_is_not_open_in_a_new_copy(original: Place, tmp_path: Path) -> None:
    """An operation that was open in the original is not open in the new copy, where it would continue in the original's
    checkpoints.
    """
    started = OperationStarted(operation="op", request=DeployRequest(job="sales"), steps=())
    Journal(original.store, "sales", writer="w").append(lambda _: started)
    copy = original.copied_to(tmp_path / "copy")
    begin_anew(copy.store, str(copy.home), by="ada", reason="staging")
    assert Journal(copy.store, "sales", writer="r").state().open_operation is None
    assert Journal(original.store, "sales", writer="r").state().open_operation.operation == "op"


def test_declaring_an_unused_store_new_writes_its_first_record(tmp_path: Path) -> None:
    """Declaring an unused store new gives it record number 1 and its own id, as a first opening does."""
    place = Place(tmp_path / "home")
    made = begin_anew(place.store, str(place.home), by="ada", reason="a new cluster")
    assert (made.number, made.first, made.is_a_copy) == (1, made.id, False)
    assert newest_record(place.store) == 1
    assert place.open() == made


def test_an_installation_at_its_recorded_location_cannot_be_declared_a_copy(original: Place) -> None:
    """An installation at its recorded location cannot be declared a copy."""
    with pytest.raises(OperationRefused, match="is at its recorded location, so it is not a copy"):
        begin_anew(original.store, str(original.home), by="ada", reason="by mistake")
    assert original.open().number == 1


def test_only_a_moved_installation_keeps_its_id_and_a_copy_does_not(original: Place, tmp_path: Path) -> None:
    """An installation can be declared moved only once its former location no longer contains it, and it then keeps its
    id.
    """
    copy = original.copied_to(tmp_path / "copy")
    with pytest.raises(OperationRefused, match="still contains the installation"):
        note_moved(copy.store, str(copy.home), by="ada", reason="a larger disk")
    before = original.open()
    original.home.rename(tmp_path / "gone")
    made = note_moved(copy.store, str(copy.home), by="ada", reason="a larger disk")
    assert (made.id, made.number, made.is_a_copy) == (before.id, 2, False)
    assert copy.open() == made


def test_an_unreadable_former_location_prevents_declaring_a_move(
    original: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the former location cannot be read, declaring a move is refused, unless a person states that the former
    location is gone.
    """
    copy = original.copied_to(tmp_path / "copy")

    def unreachable(url: str) -> LocalStore:
        raise StoreUnavailable(f"{url} does not answer")

    monkeypatch.setattr(installations, "open_store", unreachable)
    with pytest.raises(OperationRefused, match="it is unknown whether .* still contains"):
        note_moved(copy.store, str(copy.home), by="ada", reason="its region is down")
    made = note_moved(copy.store, str(copy.home), by="ada", reason="its region is gone", former_gone=True)
    assert made.id == original.open().id


def test_an_installation_mistakenly_declared_new_regains_its_former_id(original: Place, tmp_path: Path) -> None:
    """A moved installation that was mistakenly declared new regains its former id by being declared moved with that
    id.
    """
    before = original.open()
    original.home.rename(tmp_path / "moved")
    moved = Place(tmp_path / "moved")
    assert begin_anew(moved.store, str(moved.home), by="ada", reason="by mistake").id != before.id
    with pytest.raises(OperationRefused, match="has no record of installation 0123"):
        note_moved(moved.store, str(moved.home), by="ada", reason="it was moved", id="0123")
    assert note_moved(moved.store, str(moved.home), by="ada", reason="it was moved", id=before.id).id == before.id
    assert moved.open().is_mine("")


def test_a_copy_can_only_read_the_shared_snapshots_of_the_original(original: Place, tmp_path: Path) -> None:
    """In a shared snapshot store, only the owning installation may write; a copy or a different installation can only
    read.
    """
    snapshots = LocalStore(tmp_path / "snapshots")
    assert claim_snapshots(snapshots, original.open()) is snapshots
    copy = original.copied_to(tmp_path / "copy")
    made = begin_anew(copy.store, str(copy.home), by="ada", reason="staging")
    found = claim_snapshots(snapshots, made)
    assert isinstance(found, ReadOnlyStore)
    for write in (lambda: found.create("a", b""), lambda: found.replace("a", b""), lambda: found.delete("a")):
        with pytest.raises(OperationRefused, match="STREAMKEEPER_SNAPSHOTS"):
            write()
    snapshots.create("a", b"1")
    assert (found.read("a"), list(found.list("")), found.read_range("a", 0, 1)) == (b"1", ["a", "owner.json"], b"1")
    another = Place(tmp_path / "another").open()
    assert isinstance(claim_snapshots(snapshots, another), ReadOnlyStore), "one that is no copy, either"
    own = LocalStore(tmp_path / "own")
    assert claim_snapshots(own, made) is own


def test_without_the_location_check_a_copy_opens_with_the_original_id(
    original: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the check of the location, a copy opens with the id of the original."""
    copy = original.copied_to(tmp_path / "copy")
    monkeypatch.setattr(installations, "find_misplaced", lambda *_: "")
    assert copy.open() == original.open()
    assert find_misplaced(copy.store, copy.open(), str(copy.home)) != ""


def test_which_record_is_the_newest_costs_one_request(tmp_path: Path) -> None:
    """Finding the number of the newest installation record costs one request."""
    store = CountingStore(LocalStore(tmp_path / "store"))
    assert newest_record(store) == 0
    open_installation(store, str(tmp_path / "home"))
    before = store.requests
    assert newest_record(store) == 1
    assert store.requests - before == 1


def test_a_foreign_file_next_to_the_installation_records_is_ignored(tmp_path: Path) -> None:
    """A foreign file next to the installation records is ignored. Negative control: a torn record with a number is
    reported as damage, because it may declare a copy.
    """
    place = Place(tmp_path)
    first = place.open()
    for name in ("notes.txt", "0000000001.json.bak", "zz"):
        place.store.create(f"installation/{name}", b"{")
    assert place.open() == first == read_installation(place.store)
    assert newest_record(place.store) == 1
    note_moved(place.store, str(place.home), by="ann", reason="a test")
    place.store.create("installation/0000000002.json", b"{")
    with pytest.raises(RegistryDamaged, match="0000000002"):
        place.open()
