"""Tests that the counting store keeps the store contract and counts requests correctly."""

from __future__ import annotations

import pytest

from streamkeeper.stores.counting import CountingStore
from tests.contracts.memory_store import MemoryStore
from tests.contracts.store_contract import StoreContract


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


class TestCountingStore(StoreContract):
    """A store that counts its requests keeps the store contract."""


def test_every_call_of_the_store_counts_as_one_request() -> None:
    """Each create, replace, read, range read and delete counts as one request."""
    store = CountingStore(MemoryStore())
    store.create("a", b"")
    store.replace("a", b"")
    store.read("a")
    store.read_range("a", 0, 1)
    store.delete("a")
    assert store.requests == 5


def test_a_listing_counts_one_request_for_each_thousand_keys() -> None:
    """A listing counts one request for each thousand keys, and one if there are none."""
    inner = MemoryStore()
    store = CountingStore(inner)
    for there, pages in [(0, 1), (1, 1), (1000, 1), (1001, 2), (2500, 3)]:
        inner.values = {f"a/{number:05d}": b"" for number in range(there)}
        store.requests = 0
        assert len(list(store.list("a/"))) == there
        assert store.requests == pages
