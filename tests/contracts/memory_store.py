"""An in-memory store for property tests, which run thousands of interleavings per second on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from streamkeeper.errors import KeyExists, KeyMissing
from streamkeeper.stores.contract import Store
from streamkeeper.stores.keys import check_key, check_prefix


class MemoryStore(Store):
    """A store that passes the same contract tests as the real stores; tests may read or damage its ``values`` (key ->
    bytes).
    """

    def __init__(self) -> None:
        self.url = "memory:"
        self.values: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def read(self, key: str) -> bytes:
        return self._checked(key, self._value(key))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self._checked(key, self._value(key)[start : start + length])

    def _value(self, key: str) -> bytes:
        try:
            return self.values[check_key(key)]
        except KeyError:
            raise KeyMissing(key) from None

    def _checked(self, key: str, value: bytes) -> bytes:
        self.check_readable(key, len(value))
        return value

    def create(self, key: str, value: bytes) -> None:
        self.check_writable(key, value)
        with self._lock:
            if check_key(key) in self.values:
                raise KeyExists(key)
            self.values[key] = value

    def replace(self, key: str, value: bytes) -> None:
        self.check_writable(key, value)
        self.values[check_key(key)] = value

    def list(self, prefix: str, *, after: str = "") -> Iterator[str]:
        check_prefix(prefix)
        yield from sorted(key for key in list(self.values) if key.startswith(prefix) and key > after)

    def delete(self, key: str) -> None:
        self.values.pop(check_key(key), None)
