"""The counting store: the contract, and the count."""

from __future__ import annotations

import pytest

from streamkeeper.stores.counting import CountingStore
from tests.contracts.memory_store import MemoryStore
from tests.contracts.store_contract import StoreContract


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


class TestCountingStore(StoreContract):
    """Counting changes nothing else."""


def test_every_call_counts_one() -> None:
    """Reads, writes and deletes cost one request each, also those that fail."""
    store = CountingStore(MemoryStore())
    store.create("a", b"")
    store.replace("a", b"")
    store.read("a")
    store.read_range("a", 0, 1)
    store.delete("a")
    assert store.requests == 5


def test_list_counts_its_pages() -> None:
    """A listing costs one request per thousand keys, and one when there is nothing."""
    inner = MemoryStore()
    store = CountingStore(inner)
    for there, pages in [(0, 1), (1, 1), (1000, 1), (1001, 2), (2500, 3)]:
        inner.values = {f"a/{number:05d}": b"" for number in range(there)}
        store.requests = 0
        assert len(list(store.list("a/"))) == there
        assert store.requests == pages
