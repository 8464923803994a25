"""Tests a store that reads the data of a different installation and writes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamkeeper.errors import OperationRefused
from streamkeeper.stores.contract import Store
from streamkeeper.stores.read_only import ReadOnlyStore
from tests.contracts.memory_store import MemoryStore

WRITES: dict[str, Callable[[Store], object]] = {
    "create": lambda store: store.create("a/2", b"new"),
    "replace": lambda store: store.replace("a/1", b"new"),
    "delete": lambda store: store.delete("a/1"),
    "clear_unfinished": lambda store: store.clear_unfinished("", older_than_s=0.0),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_write_to_a_read_only_store_is_refused_with_the_reason(write: Callable[[Store], object]) -> None:
    """Every write to a read-only store is refused with its reason and hint, and the values stay unchanged."""
    inner = MemoryStore()
    inner.create("a/1", b"old")
    store = ReadOnlyStore(inner, reason="it belongs to b2", hint="copy it")
    with pytest.raises(OperationRefused) as refused:
        write(store)
    assert (refused.value.message, refused.value.hint) == ("it belongs to b2", "copy it")
    assert inner.values == {"a/1": b"old"}


def test_reads_are_those_of_the_inner_store() -> None:
    """A read-only store returns the values, ranges, keys and folders of the inner store unchanged."""
    inner = MemoryStore()
    inner.create("a/1", b"old")
    store = ReadOnlyStore(inner, reason="", hint="")
    assert (store.url, store.read("a/1"), store.read_range("a/1", 1, 2)) == (inner.url, b"old", b"ld")
    assert (list(store.list("a/")), list(store.list("a/", after="a/1")), list(store.folders(""))) == (
        ["a/1"],
        [],
        ["a"],
    )
