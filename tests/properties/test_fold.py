"""Property tests of the fold: any sequence of records gives one state, from any stored prefix and any folded copy."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.records.job_state import JobState, fold
from streamkeeper.model.records.journal_records import Entry, Record
from streamkeeper.registry import journal
from streamkeeper.registry.journal import Journal
from tests.contracts.memory_store import MemoryStore
from tests.properties.values import RECORDS

QUIET = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
SEQUENCES = st.lists(RECORDS, max_size=25)


def entries_of(records: list[Record]) -> list[Entry]:
    return [Entry(number=number, at="", by="", record=record) for number, record in enumerate(records, start=1)]


def assert_same(one: JobState, other: JobState) -> None:
    """Assert that two states are equal, including the order of instances and operations, which separates older ones
    from newer ones.
    """
    assert one == other
    assert list(one.instances) == list(other.instances)
    assert list(one.operations) == list(other.operations)


@QUIET
@given(records=SEQUENCES)
def test_every_sequence_folds(records: list[Record]) -> None:
    """Fold accepts every sequence of records, including duplicates and unknown references, and the state has the number
    of the last entry.
    """
    state = reduce(fold, entries_of(records), JobState(job="sales"))
    assert state.number == len(records)


@QUIET
@given(records=SEQUENCES, data=st.data())
def test_folding_onto_a_stored_prefix_gives_the_same_state(records: list[Record], data: st.DataObject) -> None:
    """Folding the remaining entries onto a stored and reloaded prefix gives the same state as folding all entries."""
    entries = entries_of(records)
    cut = data.draw(st.integers(0, len(entries)))
    prefix = reduce(fold, entries[:cut], JobState(job="sales"))
    stored = from_json(to_json(prefix, in_order=True), JobState, where="prefix")
    assert stored == prefix
    assert_same(reduce(fold, entries[cut:], stored), reduce(fold, entries, JobState(job="sales")))


@QUIET
@given(entry=RECORDS.map(lambda record: Entry(number=1, at="2026-11-21T00:00:00Z", by="w", record=record)))
def test_every_entry_reads_back(entry: Entry) -> None:
    """Every kind of record is read back as it was written, and equal values are stored as equal bytes."""
    read = from_json(to_json(entry), Entry, where="entry")
    assert read == entry
    assert to_json(read) == to_json(entry)


@QUIET
@given(records=SEQUENCES, data=st.data())
def test_compaction_changes_no_reader(
    monkeypatch: pytest.MonkeyPatch, records: list[Record], data: st.DataObject
) -> None:
    """Every reader sees the same state, whatever the distance between folded copies and whichever of them are
    damaged.
    """
    monkeypatch.setattr(journal, "FOLD_EVERY", data.draw(st.integers(1, 8)))
    store = MemoryStore()
    for record in records:
        Journal(store, "sales", writer="w").append(lambda state, record=record: record)  # type: ignore[misc]
    folds = [key for key in store.values if "/folds/" in key]
    for key in data.draw(st.lists(st.sampled_from(folds), unique=True) if folds else st.just([])):
        store.values[key] = data.draw(st.sampled_from([b"", b"{}", b'{"format":99}', store.values[key][:-9]]))
    entries = list(Journal(store, "sales", writer="r").entries())
    assert [entry.record for entry in entries] == records
    assert_same(Journal(store, "sales", writer="r").state(), reduce(fold, entries, JobState(job="sales")))
