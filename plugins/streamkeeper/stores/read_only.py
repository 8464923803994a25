"""A read-only store, for data of another installation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from streamkeeper.errors import OperationRefused
from streamkeeper.stores.contract import Store


class ReadOnlyStore(Store):
    """Reads from ``inner``; refuses every write with ``reason`` and ``hint``."""

    def __init__(self, inner: Store, *, reason: str, hint: str) -> None:
        self.url = inner.url
        self._inner = inner
        self._reason, self._hint = reason, hint

    def read(self, key: str) -> bytes:
        return self._inner.read(key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self._inner.read_range(key, start, length)

    def list(self, prefix: str, *, after: str = "") -> Iterator[str]:
        return self._inner.list(prefix, after=after)

    def folders(self, prefix: str) -> Iterator[str]:
        return self._inner.folders(prefix)

    def create(self, key: str, value: bytes) -> None:
        self._refuse()

    def replace(self, key: str, value: bytes) -> None:
        self._refuse()

    def delete(self, key: str) -> None:
        self._refuse()

    def clear_unfinished(self, prefix: str, *, older_than_s: float) -> int:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise OperationRefused(self._reason, hint=self._hint)
