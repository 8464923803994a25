"""Tests the journal: its cost in store requests, and its behaviour on damage, crashes and a slow store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pendulum
import pytest

from harness.fault_store import FaultStore, unavailable
from streamkeeper.errors import (
    FormatTooNew,
    InvalidInput,
    KeyExists,
    OperationRefused,
    RegistryDamaged,
)
from streamkeeper.model.coding import to_json
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_keys import entry_key, fold_key, fold_prefix, journal_prefix
from streamkeeper.model.records.journal_records import Record, StepBegun, StepDone
from streamkeeper.registry.journal import FOLD_EVERY, KEPT_FOLDS, Journal, has_journal
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore
from tests.contracts.memory_store import MemoryStore
from tests.properties.versions import next_version


def written(store: MemoryStore | CountingStore, count: int) -> Journal:
    """Return a journal to which ``count`` records were appended."""
    journal = Journal(store, "sales", writer="w")
    for _ in range(count):
        journal.append(next_version)
    return journal


def at_most(count: int) -> Callable[[JobState], Record | None]:
    """Return a decision that adds a record as long as the journal has fewer than ``count``."""
    return lambda state: None if state.number >= count else next_version(state)


def test_a_damaged_journal_counts_as_a_journal_and_a_bundle_alone_does_not() -> None:
    """A job whose first entry is lost still counts as having a journal, one with only a bundle does not, and the check
    of an intact journal costs one request.
    """
    store = CountingStore(MemoryStore())
    store.create("registry/sales/bundles/abc.zip", b"of a deploy that died at once")
    assert not has_journal(store, "sales")
    written(store, 2)
    store.requests = 0
    assert has_journal(store, "sales")
    assert store.requests == 1
    store.delete(entry_key("sales", 1))
    assert has_journal(store, "sales")


def test_nothing_new_costs_one_request() -> None:
    """Reading the state without new entries costs one list request."""
    store = CountingStore(MemoryStore())
    journal = written(store, 250)
    store.requests = 0
    for _ in range(10):
        journal.state()
    assert store.requests == 10


def test_new_entries_cost_one_read_each_and_one_more() -> None:
    """Three new entries of a different writer cost one list request and four reads, because the last known entry is
    read once more.
    """
    store = CountingStore(MemoryStore())
    journal = written(store, 5)
    other = Journal(store, "sales", writer="other")
    for _ in range(3):
        other.append(next_version)
    store.requests = 0
    assert journal.state().number == 8
    assert store.requests == 5


def test_an_emptied_or_older_journal_is_reported_as_damaged() -> None:
    """A store that was emptied or replaced by an older copy is reported as damaged, and nothing is written to it."""
    for left in (0, 3):
        store = MemoryStore()
        journal = written(store, 5)
        for number in range(left + 1, 6):
            store.delete(entry_key("sales", number))
        with pytest.raises(RegistryDamaged, match="the store was lost, or an older copy"):
            journal.state()
        with pytest.raises(RegistryDamaged, match="the store was lost"):
            journal.append(next_version)
        assert len(list(store.list(journal_prefix("sales")))) == left


@pytest.mark.parametrize("entries", [5, 6])
def test_a_journal_with_a_replaced_entry_is_not_continued(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal whose known entry was replaced is not continued, while a reader of the present entries continues.

    Negative control: without that check, a record is appended on a state that no longer exists.
    """
    store = MemoryStore()
    journal = written(store, 5)
    for number in (4, 5):
        store.delete(entry_key("sales", number))
    others = Journal(store, "sales", writer="other")
    while others.state().number < entries:
        others.append(next_version)
    with pytest.raises(RegistryDamaged, match=r"0000000005.json was read and is another entry now"):
        journal.append(next_version)
    assert others.append(next_version).number == entries + 1
    monkeypatch.setattr(Journal, "_must_follow", lambda *_: None)
    assert journal.append(next_version).number == entries + 2


def test_append_costs_three_requests() -> None:
    """An append to an up-to-date journal costs three requests (list, read, write); every hundredth append also writes a
    folded copy and looks for older ones, which makes five.
    """
    store = CountingStore(MemoryStore())
    journal = written(store, 98)
    prices = []
    for _ in range(3):
        store.requests = 0
        journal.append(next_version)
        prices.append(store.requests)
    assert prices == [3, 5, 3]


def test_opening_a_long_journal_reads_from_the_last_folded_copy() -> None:
    """Opening a journal of 250 entries reads one folded copy and the 50 entries after it, and gives the same state."""
    store = CountingStore(MemoryStore())
    state = written(store, 250).state()
    store.requests = 0
    assert Journal(store, "sales", writer="r").state() == state
    assert store.requests == 2 + 1 + 50


def test_only_the_newest_folded_copies_stay() -> None:
    """Only the two newest folded copies are kept, and the state is unchanged."""
    store = MemoryStore()
    state = written(store, 520).state()
    assert [key for key in store.values if "/folds/" in key] == [fold_key("sales", 400), fold_key("sales", 500)]
    assert Journal(store, "sales", writer="r").state() == state


@pytest.mark.parametrize("damage", [None, b"", b"{", b'{"format":1,"job":"other","number":200}', b'{"format":99}'])
def test_folded_copy_that_cannot_be_used_is_passed_over(damage: bytes | None) -> None:
    """A folded copy that is missing, torn, of a different job or of a newer format is ignored, and the state is the
    same.
    """
    store = MemoryStore()
    state = written(store, 250).state()
    if damage is None:
        store.delete(fold_key("sales", 200))
    else:
        store.values[fold_key("sales", 200)] = damage
    assert Journal(store, "sales", writer="r").state() == state


def test_folded_copy_of_an_older_format_is_folded_again() -> None:
    """A folded copy of an older format is ignored, and the state is folded from the entries."""
    store = MemoryStore()
    state = written(store, 110).state()
    old = b'{"format":0,"job":"sales","number":100,"appointed":"made-by-other-rules"}'
    store.values[fold_key("sales", 100)] = old
    assert Journal(store, "sales", writer="r").state() == state


def test_a_missing_folded_copy_is_written_by_the_next_writer() -> None:
    """If the writer of the hundredth entry died before it wrote the folded copy, the next writer that reads that many
    entries writes one.
    """
    store = MemoryStore()
    written(store, 120)
    store.delete(fold_key("sales", 100))
    journal = Journal(store, "sales", writer="next")
    journal.append(next_version)
    journal.append(next_version)
    assert [key for key in store.values if "/folds/" in key] == [fold_key("sales", 121)]


def test_an_append_succeeds_although_its_folded_copy_fails() -> None:
    """An append succeeds although the store refuses its folded copy, which is written with the next append."""
    store = MemoryStore()
    refusing = FaultStore(store, unavailable("create", key="/folds/"))
    journal = written(refusing, 100)
    assert journal.state().number == 100
    refusing.before = lambda call, key: None
    journal.append(next_version)
    assert fold_key("sales", 101) in store.values


def test_none_decides_nothing() -> None:
    """A decision of None writes nothing and returns the newest state."""
    store = MemoryStore()
    written(store, 2)
    assert Journal(store, "sales", writer="r").append(lambda state: None).number == 2
    assert len(store.values) == 2


def test_a_record_with_a_value_of_the_wrong_type_is_not_written() -> None:
    """A record with a value of the wrong type is refused at its writer and never stored."""
    store = MemoryStore()
    with pytest.raises(RegistryDamaged):
        Journal(store, "sales", writer="w").append(lambda state: StepDone(operation="o", step=7))  # type: ignore[arg-type]
    assert store.values == {}


def test_decide_may_refuse() -> None:
    """An error that the decision raises is passed on, and nothing is written."""
    store = MemoryStore()
    written(store, 1)

    def refuse(state: JobState) -> Record | None:
        raise OperationRefused(f"at {state.number}")

    with pytest.raises(OperationRefused, match="at 1"):
        Journal(store, "sales", writer="r").append(refuse)
    assert len(store.values) == 1


def test_loser_decides_again_on_the_winners_state() -> None:
    """A writer whose number was taken decides a second time on a state that contains the winner's record."""
    store = MemoryStore()
    slow, fast = Journal(store, "sales", writer="slow"), Journal(store, "sales", writer="fast")
    asked: list[int] = []

    def decide(state: JobState) -> Record:
        asked.append(state.number)
        if len(asked) == 1:
            fast.append(next_version)
        return next_version(state)

    assert slow.append(decide).number == 2
    assert asked == [0, 1]


def test_own_entry_under_a_taken_number_counts_as_won() -> None:
    """When the store reports the writer's own first attempt as an existing key, the append counts as successful and
    writes no second entry.
    """

    class Forgetful(MemoryStore):
        def create(self, key: str, value: bytes) -> None:
            super().create(key, value)
            raise KeyExists(key)

    store = Forgetful()
    assert written(store, 3).state().number == 3
    assert len(store.values) == 3


def test_two_writers_with_the_same_name_get_distinct_names() -> None:
    """Two writers with the same name get distinct names in the journal."""
    store = MemoryStore()
    for _ in range(2):
        Journal(store, "sales", writer="same").append(next_version)
    by = [entry.by for entry in Journal(store, "sales", writer="r").entries()]
    assert len(set(by)) == 2
    assert all(each.startswith("same#") for each in by)


def test_entries_contain_the_time_passed_to_their_writer() -> None:
    """Entries contain the time that their writer was given."""
    store = MemoryStore()
    at = pendulum.datetime(2026, 11, 21, 1, 2, 3)
    Journal(store, "sales", writer="w", now=lambda: at).append(next_version)
    assert [entry.at for entry in Journal(store, "sales", writer="r").entries()] == ["2026-11-21T01:02:03Z"]


def test_missing_entry_is_damage() -> None:
    """A gap in the journal stops every reader with an error that names the key."""
    store = MemoryStore()
    written(store, 5)
    store.delete(entry_key("sales", 3))
    with pytest.raises(RegistryDamaged, match=r"registry/sales/journal/0000000003\.json is missing"):
        Journal(store, "sales", writer="r").state()


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"number":3}'])
def test_unreadable_entry_is_damage(value: bytes) -> None:
    """An entry that cannot be decoded stops every reader with an error that names the key."""
    store = MemoryStore()
    written(store, 5)
    store.values[entry_key("sales", 3)] = value
    with pytest.raises(RegistryDamaged, match=r"0000000003\.json cannot be read"):
        Journal(store, "sales", writer="r").state()


def test_entry_under_another_number_is_damage() -> None:
    """An entry that was copied under a different number is reported as damage."""
    store = MemoryStore()
    written(store, 3)
    store.values[entry_key("sales", 3)] = store.values[entry_key("sales", 2)]
    with pytest.raises(RegistryDamaged, match=r"0000000003\.json contains entry 2"):
        Journal(store, "sales", writer="r").state()


@pytest.mark.parametrize("name", ["0000000002.json.bak", "README", "00000000003.json", "3.json", "journal.json"])
def test_stray_file_in_the_journal_is_passed_over(name: str) -> None:
    """A foreign file among the entries is ignored, left in place and listed as a stray."""
    store: MemoryStore = MemoryStore()
    written(store, 2)
    stray = journal_prefix("sales") + name
    store.values[stray] = b"a note"
    journal = Journal(store, "sales", writer="r")
    assert journal.append(at_most(3)).number == 3
    assert journal.strays() == [stray]
    assert store.values[stray] == b"a note"


def test_stray_file_among_the_folded_copies_is_left_alone() -> None:
    """A foreign file among the folded copies is neither read nor deleted, and does not affect which copies are kept."""
    store = MemoryStore()
    stray = fold_prefix("sales") + "zzz.json"
    store.values[stray] = b"a note"
    written(store, 3 * FOLD_EVERY)
    assert store.values[stray] == b"a note"
    assert sum(key.startswith(fold_prefix("sales")) for key in store.values) == KEPT_FOLDS + 1
    assert Journal(store, "sales", writer="r").state().number == 3 * FOLD_EVERY


def of_tomorrow(store: MemoryStore, number: int, record: dict[str, object], *, may_pass: bool) -> None:
    """Write entry ``number`` as a newer version of Streamkeeper would."""
    entry = {"number": number, "at": "", "by": "tomorrow", "record": record, "drivers_may_pass": may_pass}
    store.values[entry_key("sales", number)] = json.dumps(entry).encode()


TOMORROWS: dict[str, dict[str, object]] = {
    "unknown kind": {"type": "something-of-tomorrow"},
    "unknown value": {
        "type": "operation-started",
        "operation": "o",
        "steps": [],
        "request": {"job": "sales", "strategy": "of-tomorrow"},
    },
}


@pytest.mark.parametrize("record", TOMORROWS.values(), ids=TOMORROWS)
def test_a_driver_skips_a_skippable_record_of_a_newer_version(record: dict[str, object]) -> None:
    """A driver skips an unknown record of a newer version if its writer marked it as skippable, and reads the entries
    after it.
    """
    store = MemoryStore()
    written(store, 2)
    of_tomorrow(store, 3, record, may_pass=True)
    driver = Journal(store, "sales", writer="d", passing=True)
    assert driver.append(at_most(4)).number == 4
    assert [each.version for each in driver.state().versions["totals"]] == ["v0001", "v0002", "v0003"]


@pytest.mark.parametrize("record", TOMORROWS.values(), ids=TOMORROWS)
def test_an_operation_stops_at_a_record_of_a_newer_version(record: dict[str, object]) -> None:
    """A reader that decides about a job stops at an unknown record of a newer version and names the version to run."""
    store = MemoryStore()
    written(store, 2)
    of_tomorrow(store, 3, record, may_pass=True)
    with pytest.raises(FormatTooNew, match=rf"0000000003\.json contains a {record['type']} record.*newer Streamkeeper"):
        Journal(store, "sales", writer="o").append(next_version)
    assert len(store.values) == 3


@pytest.mark.parametrize(
    ("record", "may_pass", "told"),
    [
        ({"type": "something-of-tomorrow"}, False, "contains a something-of-tomorrow record.*newer Streamkeeper"),
        ({"type": "instance-appointed", "instance": 7}, True, "cannot be read"),
        ({"type": "shadow-appointed"}, True, "cannot be read"),
        ({}, True, "cannot be read"),
    ],
)
def test_a_driver_stops_at_a_record_that_may_not_be_skipped(
    record: dict[str, object], may_pass: bool, told: str
) -> None:
    """A driver stops at an unknown record that is not marked as skippable, and at an unreadable record of ownership or
    without a type, whatever the mark.
    """
    store = MemoryStore()
    written(store, 2)
    of_tomorrow(store, 3, record, may_pass=may_pass)
    for passing in (True, False):
        with pytest.raises((RegistryDamaged, FormatTooNew), match=rf"0000000003\.json {told}"):
            Journal(store, "sales", writer="d", passing=passing).state()


def test_a_driver_that_skipped_a_record_writes_no_folded_copy() -> None:
    """A driver that has skipped a record writes no folded copy, which would hide that record from newer versions."""
    store = MemoryStore()
    of_tomorrow(store, 1, TOMORROWS["unknown kind"], may_pass=True)
    driver = Journal(store, "sales", writer="d", passing=True)
    for number in range(2, FOLD_EVERY + 2):
        driver.append(at_most(number))
    assert driver.state().number == FOLD_EVERY + 1
    assert not [key for key in store.values if key.startswith(fold_prefix("sales"))]


def test_every_entry_states_whether_drivers_may_skip_it() -> None:
    """Every entry states whether drivers may skip it: a record of ownership may not be skipped, the progress of an
    operation may.
    """
    store = MemoryStore()
    journal = Journal(store, "sales", writer="w")
    journal.append(next_version)
    journal.append(lambda state: None if state.number > 1 else StepBegun(operation="o", step="s"))
    assert [each.drivers_may_pass for each in journal.entries()] == [False, True]


def test_an_entry_of_a_newer_format_stops_an_older_version() -> None:
    """An entry of a newer format stops an older version before it writes anything."""
    store = MemoryStore()
    written(store, 2)
    newer = store.values[entry_key("sales", 2)].replace(b'"format":1', b'"format":2')
    store.values[entry_key("sales", 2)] = newer.replace(b"checkpoint-version-created", b"something-of-tomorrow")
    with pytest.raises(FormatTooNew, match=r"0000000002\.json has format 2"):
        Journal(store, "sales", writer="r").append(next_version)
    assert len(store.values) == 2


def test_job_name_is_checked() -> None:
    """An invalid job name is refused, so that a journal is never opened outside its folder."""
    with pytest.raises(InvalidInput):
        Journal(MemoryStore(), "../sales", writer="w")


WRITER = """
import sys
from streamkeeper.registry.journal import Journal, has_journal
from streamkeeper.stores.local import LocalStore
from tests.properties.versions import next_version
Journal(LocalStore(sys.argv[1]), "sales", writer="w").append(
    lambda state: None if state.number else next_version(state))
"""


@pytest.mark.parametrize(("point", "left"), [("before", 0), ("after", 1)])
def test_rerunning_a_writer_killed_at_a_record_gives_exactly_one_entry(tmp_path: Path, point: str, left: int) -> None:
    """A writer killed before its record leaves no entry, one killed after it leaves one, and a rerun gives exactly one
    in both cases.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    crash = {"STREAMKEEPER_CRASH": f"record.checkpoint-version-created.{point}"}
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    killed = subprocess.run(command, env={**environment, **crash}, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    reader = Journal(LocalStore(tmp_path), "sales", writer="r")
    assert reader.state().number == left
    subprocess.run(command, env=environment, timeout=60, check=True)
    assert reader.state().number == 1


def test_state_is_stored_canonically() -> None:
    """Two journals that read the same entries store states that are equal byte for byte."""
    store = MemoryStore()
    journal = written(store, 7)
    assert to_json(journal.state()) == to_json(Journal(store, "sales", writer="r").state())
