"""Tests that the in-memory store, which the property tests use, keeps the store contract."""

from __future__ import annotations

import pytest

from tests.contracts.memory_store import MemoryStore
from tests.contracts.store_contract import StoreContract


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


class TestMemoryStore(StoreContract):
    """The in-memory store is neither weaker nor stronger than the real ones."""
