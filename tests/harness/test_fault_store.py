"""The fault store: a store like any other until something is to happen."""

from __future__ import annotations

import pytest

from harness.fault_store import WRITES, AtCall, FaultStore, unavailable
from streamkeeper.errors import StoreUnavailable
from tests.contracts.memory_store import MemoryStore
from tests.contracts.store_contract import StoreContract


@pytest.fixture
def store() -> FaultStore:
    return FaultStore(MemoryStore(), lambda call, key: None)


class TestFaultStore(StoreContract):
    """The contract of every store, where nothing happens before any call."""


def test_a_call_that_is_refused_changes_nothing() -> None:
    """Only such calls of such keys are refused, before the store underneath has heard of them."""
    inner = MemoryStore()
    store = FaultStore(inner, unavailable("create", key="/index/"))
    store.create("a/data/1", b"x")
    with pytest.raises(StoreUnavailable):
        store.create("a/index/1", b"x")
    store.replace("a/index/2", b"x")
    assert sorted(inner.values) == ["a/data/1", "a/index/2"]


@pytest.mark.parametrize(("of", "left"), [((), ["a"]), (WRITES, ["a", "b"])], ids=["of all calls", "of all writes"])
def test_the_nth_call_is_struck_and_no_other(of: tuple[str, ...], left: list[str]) -> None:
    """Counting those of a kind only, where a kind is named; whoever tries again gets through."""

    def strike() -> None:
        raise InterruptedError

    inner = MemoryStore()
    store = FaultStore(inner, AtCall(3, strike, of=of))

    def write_some() -> None:
        for key in ("a", "b", "c"):
            store.create(key, b"x")
            store.read(key)

    with pytest.raises(InterruptedError):
        write_some()
    assert sorted(inner.values) == left
    store.create("d", b"x")
    assert store.read("d") == b"x"
