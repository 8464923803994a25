"""A store that counts its requests, so that a test or a status can show how many an operation needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from streamkeeper.stores.contract import Store

_PAGE = 1000


class CountingStore(Store):
    """Passes requests to another store and counts them. ``requests``: the number of requests so far.

    A listing counts as one request per page of 1000 keys, as an object store charges it.
    """

    def __init__(self, inner: Store) -> None:
        self.url = inner.url
        self.requests = 0
        self._inner = inner
        self._lock = threading.Lock()

    def read(self, key: str) -> bytes:
        self._count()
        return self._inner.read(key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        self._count()
        return self._inner.read_range(key, start, length)

    def create(self, key: str, value: bytes) -> None:
        self._count()
        self._inner.create(key, value)

    def replace(self, key: str, value: bytes) -> None:
        self._count()
        self._inner.replace(key, value)

    def list(self, prefix: str, *, after: str = "") -> Iterator[str]:
        self._count()
        for position, key in enumerate(self._inner.list(prefix, after=after)):
            if position and position % _PAGE == 0:
                self._count()
            yield key

    def folders(self, prefix: str) -> Iterator[str]:
        self._count()
        for position, name in enumerate(self._inner.folders(prefix)):
            if position and position % _PAGE == 0:
                self._count()
            yield name

    def delete(self, key: str) -> None:
        self._count()
        self._inner.delete(key)

    def clear_unfinished(self, prefix: str, *, older_than_s: float) -> int:
        return self._inner.clear_unfinished(prefix, older_than_s=older_than_s)

    def _count(self) -> None:
        with self._lock:
            self.requests += 1
