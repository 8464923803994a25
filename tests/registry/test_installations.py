"""Which installation a store is, and that a copy of it, or one that was moved, is known and told what it may be."""

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
    """A home with its store inside, as by default."""

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
    """One that was used once."""
    place = Place(tmp_path / "original")
    place.open()
    return place


def test_an_installation_gets_its_id_once(original: Place) -> None:
    """Whoever opens it, in whatever order, finds the same; looking alone makes none."""
    first = original.open()
    assert first == original.open() == read_installation(original.store)
    assert (first.number, first.first, first.place) == (1, first.id, original.store.url)
    assert not first.is_a_copy
    empty = LocalStore(original.home / "other")
    assert read_installation(empty) is None
    assert list(empty.list("installation/")) == []


def test_two_that_open_a_new_store_at_once_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is create-only: the loser takes the winner's."""
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


def test_a_copy_says_so_and_is_refused(original: Place, tmp_path: Path) -> None:
    """By where its own records say that it lives; the original goes on."""
    copy = original.copied_to(tmp_path / "copy")
    with pytest.raises(OperationRefused, match=f"copied or moved: its record names the location {original.store.url}"):
        copy.open()
    assert original.open().number == 1


def test_a_copied_home_of_a_store_elsewhere_says_so_as_well(tmp_path: Path) -> None:
    """The store is where it belongs: only the home knows that it is a copy, and told so, it is one more home."""
    store, one, other = LocalStore(tmp_path / "store"), tmp_path / "one", tmp_path / "other"
    found = open_installation(store, str(one))
    shutil.copytree(one, other)
    with pytest.raises(
        OperationRefused, match=f"home {other} was copied or moved: its record names the location {one}"
    ):
        open_installation(store, str(other))
    assert begin_anew(store, str(other), by="ada", reason="a second worker") == found
    assert open_installation(store, str(other)) == open_installation(store, str(one)) == found


def test_a_link_at_the_old_place_makes_a_moved_one_whole(original: Place, tmp_path: Path) -> None:
    """Every path on record goes on to work, so nobody has to be told."""
    moved = tmp_path / "moved"
    original.home.rename(moved)
    with pytest.raises(OperationRefused):
        Place(moved).open()
    original.home.symlink_to(moved)
    assert Place(moved).open().number == 1


def test_a_copy_becomes_an_installation_of_its_own(original: Place, tmp_path: Path) -> None:
    """With an id of its own: what was recorded before, with the former id or with none, is not its."""
    copy = original.copied_to(tmp_path / "copy")
    made = begin_anew(copy.store, str(copy.home), by="ada", reason="staging")
    assert copy.open() == made
    assert (made.is_a_copy, made.first) == (True, original.open().id)
    assert [made.is_mine(each) for each in ("", made.first, made.id)] == [False, False, True]
    assert [original.open().is_mine(each) for each in ("", made.first, made.id)] == [True, True, False]
    again = copy.copied_to(tmp_path / "again")
    with pytest.raises(OperationRefused):
        again.open()


def test_what_was_under_way_in_the_copy_is_over(original: Place, tmp_path: Path) -> None:
    """It is the former one's deploy: carried on here, it would go on in the former's checkpoints."""
    started = OperationStarted(operation="op", request=DeployRequest(job="sales"), steps=())
    Journal(original.store, "sales", writer="w").append(lambda _: started)
    copy = original.copied_to(tmp_path / "copy")
    begin_anew(copy.store, str(copy.home), by="ada", reason="staging")
    assert Journal(copy.store, "sales", writer="r").state().open_operation is None
    assert Journal(original.store, "sales", writer="r").state().open_operation.operation == "op"


def test_a_store_that_was_never_used_becomes_an_installation_with_its_first_record(tmp_path: Path) -> None:
    """Numbered 1 and with the id of its own that a first use gives."""
    place = Place(tmp_path / "home")
    made = begin_anew(place.store, str(place.home), by="ada", reason="a new cluster")
    assert (made.number, made.first, made.is_a_copy) == (1, made.id, False)
    assert newest_record(place.store) == 1
    assert place.open() == made


def test_what_is_no_copy_cannot_be_told_to_be_one(original: Place) -> None:
    """A slip in the original would leave its jobs without their checkpoints."""
    with pytest.raises(OperationRefused, match="is at its recorded location, so it is not a copy"):
        begin_anew(original.store, str(original.home), by="ada", reason="by mistake")
    assert original.open().number == 1


def test_a_moved_one_keeps_its_id_and_a_copy_is_not_taken_for_it(original: Place, tmp_path: Path) -> None:
    """Moved it may be told to be only once its former place does not hold it any more."""
    copy = original.copied_to(tmp_path / "copy")
    with pytest.raises(OperationRefused, match="still contains the installation"):
        note_moved(copy.store, str(copy.home), by="ada", reason="a larger disk")
    before = original.open()
    original.home.rename(tmp_path / "gone")
    made = note_moved(copy.store, str(copy.home), by="ada", reason="a larger disk")
    assert (made.id, made.number, made.is_a_copy) == (before.id, 2, False)
    assert copy.open() == made


def test_a_former_place_that_does_not_answer_counts_as_there(
    original: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy in another account would pass for the one that nobody there can ask; a person may know better."""
    copy = original.copied_to(tmp_path / "copy")

    def unreachable(url: str) -> LocalStore:
        raise StoreUnavailable(f"{url} does not answer")

    monkeypatch.setattr(installations, "open_store", unreachable)
    with pytest.raises(OperationRefused, match="it is unknown whether .* still contains"):
        note_moved(copy.store, str(copy.home), by="ada", reason="its region is down")
    made = note_moved(copy.store, str(copy.home), by="ada", reason="its region is gone", former_gone=True)
    assert made.id == original.open().id


def test_a_mistaken_new_one_is_taken_back(original: Place, tmp_path: Path) -> None:
    """The original was moved, and told to be new: by its former id it is again what it was."""
    before = original.open()
    original.home.rename(tmp_path / "moved")
    moved = Place(tmp_path / "moved")
    assert begin_anew(moved.store, str(moved.home), by="ada", reason="by mistake").id != before.id
    with pytest.raises(OperationRefused, match="has no record of installation 0123"):
        note_moved(moved.store, str(moved.home), by="ada", reason="it was moved", id="0123")
    assert note_moved(moved.store, str(moved.home), by="ada", reason="it was moved", id=before.id).id == before.id
    assert moved.open().is_mine("")


def test_a_copy_only_reads_the_snapshots_of_the_other(original: Place, tmp_path: Path) -> None:
    """In a store apart, that both are set to: it would let go of what the other relies on."""
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


def test_without_that_look_a_copy_passes_for_the_original(
    original: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: it has the same id, and would see the same drivers as its own."""
    copy = original.copied_to(tmp_path / "copy")
    monkeypatch.setattr(installations, "find_misplaced", lambda *_: "")
    assert copy.open() == original.open()
    assert find_misplaced(copy.store, copy.open(), str(copy.home)) != ""


def test_which_record_is_the_newest_costs_one_request(tmp_path: Path) -> None:
    """Whoever looks often asks for the record itself only when there is another one."""
    store = CountingStore(LocalStore(tmp_path / "store"))
    assert newest_record(store) == 0
    open_installation(store, str(tmp_path / "home"))
    before = store.requests
    assert newest_record(store) == 1
    assert store.requests - before == 1


def test_a_file_beside_the_records_is_passed_over(tmp_path: Path) -> None:
    """Notes, an editor's copy: the newest numbered record counts. Negative control: a numbered one that is torn is not
    passed over, for it may say that this is a copy."""
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
