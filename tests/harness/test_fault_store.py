"""Tests the fault store, which behaves like any other store until a fault is injected."""

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
    """Runs the contract of every store on a fault store that injects no faults."""


def test_a_call_that_is_refused_changes_nothing() -> None:
    """Only the configured call on matching keys is refused, and it never reaches the underlying store."""
    inner = MemoryStore()
    store = FaultStore(inner, unavailable("create", key="/index/"))
    store.create("a/data/1", b"x")
    with pytest.raises(StoreUnavailable):
        store.create("a/index/1", b"x")
    store.replace("a/index/2", b"x")
    assert sorted(inner.values) == ["a/data/1", "a/index/2"]


@pytest.mark.parametrize(("of", "left"), [((), ["a"]), (WRITES, ["a", "b"])], ids=["of all calls", "of all writes"])
def test_only_the_configured_nth_call_fails(of: tuple[str, ...], left: list[str]) -> None:
    """Only the third call fails, counted over all calls or over writes alone, and later calls succeed."""

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
