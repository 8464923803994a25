"""Tests the cache of job states: entries are not read twice, and no new entry is missed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamkeeper.errors import RegistryDamaged
from streamkeeper.model.records.journal_keys import entry_key
from streamkeeper.model.records.journal_records import DesiredChanged
from streamkeeper.registry.journal import Journal
from streamkeeper.registry.known_jobs import MOST, KnownJobs
from streamkeeper.stores.counting import CountingStore
from streamkeeper.stores.local import LocalStore

JOB = "orders"


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(LocalStore(tmp_path))


def write(store: CountingStore, count: int, job: str = JOB) -> None:
    """Append ``count`` entries from a different writer."""
    journal = Journal(store, job, writer="somebody")
    for _ in range(count):
        journal.append(lambda state: DesiredChanged(serve=False, requested_by="ada", reason="", operation="op"))


def requests(store: CountingStore, known: KnownJobs) -> int:
    before = store.requests
    known.read(JOB)
    return store.requests - before


def test_rereading_a_cached_job_costs_one_request_and_a_read_per_new_entry(store: CountingStore) -> None:
    """Reading a known job without news costs one request, and with new entries one read more than their number.
    Negative control: the first read costs a request for each entry.
    """
    write(store, 20)
    known = KnownJobs(store)
    assert requests(store, known) > 20
    assert requests(store, known) == 1
    write(store, 3)
    assert requests(store, known) == 1 + 1 + 3
    assert known.read(JOB) == Journal(store, JOB, writer="test").state()


def test_a_deleted_journal_is_reported_once_and_then_read_from_the_beginning(store: CountingStore) -> None:
    """A deleted journal is reported as damage once, and is then read from the beginning."""
    write(store, 5)
    known = KnownJobs(store)
    assert known.read(JOB).number == 5
    for number in range(1, 6):
        store.delete(entry_key(JOB, number))
    with pytest.raises(RegistryDamaged, match="existed and is missing"):
        known.read(JOB)
    write(store, 2)
    assert known.read(JOB).number == 2


def test_several_threads_see_every_entry(store: CountingStore) -> None:
    """Threads that share the cache see every entry, and the state that a thread sees never goes back."""
    write(store, 1)
    known = KnownJobs(store)
    with ThreadPoolExecutor(8) as pool:
        writing = pool.submit(write, store, 40)
        looks = [pool.submit(lambda: [known.read(JOB).number for _ in range(20)]) for _ in range(4)]
        writing.result(60)
        for look in looks:
            seen = look.result(60)
            assert seen == sorted(seen)
    assert known.read(JOB).number == 41


def test_only_the_most_recently_read_jobs_are_cached(store: CountingStore) -> None:
    """Only the most recently read jobs are cached, and reading an evicted one costs as much as the first time."""
    write(store, 5)
    known = KnownJobs(store)
    known.read(JOB)
    for number in range(MOST):
        known.read(f"other_{number}")
    assert requests(store, known) > 1
    assert requests(store, known) == 1
