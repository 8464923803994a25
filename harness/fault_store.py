"""A store that injects faults before selected calls: the call fails, another writer is faster, or the process dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streamkeeper.errors import StoreUnavailable
from streamkeeper.stores.contract import Store

Before = Callable[[str, str], None]
"""Called with the kind of the call (read, create, replace, list, delete) and its key or prefix; an error that it raises
becomes the error of the call.
"""
WRITES = ("create", "replace", "delete")


class FaultStore(Store):
    """A store that passes each call on to ``inner``, after calling ``before``."""

    def __init__(self, inner: Store, before: Before) -> None:
        self.url = inner.url
        self.inner, self.before = inner, before

    def read(self, key: str) -> bytes:
        self.before("read", key)
        return self.inner.read(key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        self.before("read", key)
        return self.inner.read_range(key, start, length)

    def create(self, key: str, value: bytes) -> None:
        self.before("create", key)
        self.inner.create(key, value)

    def replace(self, key: str, value: bytes) -> None:
        self.before("replace", key)
        self.inner.replace(key, value)

    def list(self, prefix: str, *, after: str = "") -> Iterator[str]:
        self.before("list", prefix)
        yield from self.inner.list(prefix, after=after)

    def delete(self, key: str) -> None:
        self.before("delete", key)
        self.inner.delete(key)

    def clear_unfinished(self, prefix: str, *, older_than_s: float) -> int:
        return self.inner.clear_unfinished(prefix, older_than_s=older_than_s)


class AtCall:
    """Calls ``strike`` before the ``nth`` matching call, or never for 0; ``calls`` is the number of matching calls so
    far.
    """

    def __init__(self, nth: int, strike: Callable[[], None], *, of: tuple[str, ...] = ()) -> None:
        self.calls = 0
        self._nth, self._strike, self._of = nth, strike, of

    def __call__(self, call: str, key: str) -> None:
        if self._of and call not in self._of:
            return
        self.calls += 1
        if self.calls == self._nth:
            self._strike()


def unavailable(call: str = "", *, key: str = "") -> Before:
    """Return a function that raises StoreUnavailable for a call whose key contains ``key``. An empty ``call`` or
    ``key`` matches all.
    """

    def refuse(asked: str, where: str) -> None:
        if call in ("", asked) and key in where:
            raise StoreUnavailable("the store is down")

    return refuse
