"""The store that the property tests stand on keeps the contract too."""

from __future__ import annotations

import pytest

from tests.contracts.memory_store import MemoryStore
from tests.contracts.store_contract import StoreContract


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


class TestMemoryStore(StoreContract):
    """The fake is no weaker and no stronger than the real ones."""
