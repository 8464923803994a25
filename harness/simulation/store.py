"""An in-memory store with the same contract as the real ones, with outages, lost responses, and older copies that are
put back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from functools import lru_cache

from harness.simulation.scheduler import Process, Scheduler
from streamkeeper.errors import KeyExists, KeyMissing, StoreUnavailable
from streamkeeper.stores import keys
from streamkeeper.stores.contract import Store

URL = "file:///simulated-store"
_GREATEST = chr(0x10FFFF)

check_key, check_prefix = lru_cache(65536)(keys.check_key), lru_cache(8192)(keys.check_prefix)


class Disk:
    """The values of a store, shared by all processes."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._keys: list[str] = []
        self.on_create: Callable[[str, bytes], None] = lambda key, value: None
        self.on_replace: Callable[[str], None] = lambda key: None
        self.on_drop: Callable[[str], None] = lambda key: None

    def get(self, key: str) -> bytes | None:
        """Return the value of a key; None if the key does not exist."""
        return self._values.get(key)

    def put(self, key: str, value: bytes) -> None:
        """Set a value."""
        if key not in self._values:
            insort(self._keys, key)
        self._values[key] = value

    def create(self, key: str, value: bytes) -> bool:
        """Set a value whose key does not exist yet; return False, without a change, if it does."""
        if key in self._values:
            return False
        self.put(key, value)
        self.on_create(key, value)
        return True

    def drop(self, key: str) -> None:
        """Remove a value."""
        self.on_drop(key)
        if self._values.pop(key, None) is not None:
            self._keys.remove(key)

    def below(self, prefix: str, after: str) -> list[str]:
        """Return the keys with the prefix that are greater than ``after``, in order."""
        start = bisect_right(self._keys, max(after, prefix))
        # No key contains the greatest character.
        return self._keys[start : bisect_left(self._keys, f"{prefix}{_GREATEST}", start)]

    def copy(self) -> dict[str, bytes]:
        """Return a copy of all values."""
        return dict(self._values)

    def put_back(self, copy: dict[str, bytes]) -> None:
        """Replace all values by those of a copy."""
        self._values, self._keys = dict(copy), sorted(copy)


class SimulatedStore(Store):
    """One process's access to the store.

    ``lost``: returns the share of calls that fail, half of them after they have taken effect.
    """

    def __init__(
        self, disk: Disk, scheduler: Scheduler, process: Process | None, *, lost: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.url = URL
        self._disk, self._scheduler, self._process, self._lost = disk, scheduler, process, lost

    def read(self, key: str) -> bytes:
        self._before("read", check_key(key))
        value = self._disk.get(key)
        self._after("read", key)
        if value is None:
            raise KeyMissing(key)
        self.check_readable(key, len(value))
        return value

    def read_range(self, key: str, start: int, length: int) -> bytes:
        self._before("read", check_key(key))
        value = self._disk.get(key)
        self._after("read", key)
        if value is None:
            raise KeyMissing(key)
        part = value[start : start + length]
        self.check_readable(key, len(part))
        return part

    def create(self, key: str, value: bytes) -> None:
        self.check_writable(check_key(key), value)
        self._before("create", key)
        made = self._disk.create(key, bytes(value))
        self._after("create", key)
        if not made:
            raise KeyExists(key)

    def replace(self, key: str, value: bytes) -> None:
        self.check_writable(check_key(key), value)
        self._before("replace", key)
        self._disk.put(key, bytes(value))
        self._disk.on_replace(key)
        self._after("replace", key)

    def list(self, prefix: str, *, after: str = "") -> Iterator[str]:
        check_prefix(prefix)
        self._before("list", prefix)
        found = self._disk.below(prefix, after)
        self._after("list", prefix)
        yield from found

    def delete(self, key: str) -> None:
        self._before("delete", check_key(key))
        self._disk.drop(key)
        self._after("delete", key)

    def _before(self, call: str, key: str) -> None:
        self._scheduler.seam()
        process = self._process
        if process is not None and process.blind_until > self._scheduler.now_s:
            raise StoreUnavailable(f"simulated: {process.name} cannot reach the store ({call} {key})")
        if self._scheduler.strikes(self._lost() / 2):
            raise StoreUnavailable(f"simulated: no answer to {call} {key}")

    def _after(self, call: str, key: str) -> None:
        if self._scheduler.strikes(self._lost() / 2):
            self._scheduler.say(f"the answer to {call} {key} is lost")
            raise StoreUnavailable(f"simulated: the answer to {call} {key} is lost")
        if self._process is not None:
            self._process.answered_s = self._scheduler.now_s
