"""Runs writers in an order that a seed determines: one at a time, switching only at their calls to the store."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence

from harness.fault_store import FaultStore
from streamkeeper.stores.contract import Store


class Interleaving:
    """Lets ``seed`` decide, at every step, which of the unfinished writers continues to its next store call."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._parked = threading.Semaphore(0)
        self._go: dict[int, threading.Semaphore] = {}
        self._errors: list[BaseException] = []

    def run(self, writers: Sequence[Callable[[], None]]) -> None:
        """Run all writers until they finish, and raise the first error that one of them raised."""
        alive: list[threading.Thread] = []
        for writer in writers:
            thread = threading.Thread(target=self._guard, args=(writer,))
            thread.start()
            self._parked.acquire()
            alive.append(thread)
        while alive:
            chosen = alive[self.choose(len(alive))]
            self._go[chosen.ident or 0].release()
            self._parked.acquire()
            alive = [thread for thread in alive if self._go.get(thread.ident or 0)]
        if self._errors:
            raise self._errors[0]

    def step(self) -> None:
        """Wait to be chosen; a writer calls this before each store call."""
        self._parked.release()
        self._go[threading.get_ident()].acquire()

    def choose(self, count: int) -> int:
        """Return the next choice, as a number below ``count``."""
        return self._random.randrange(count)

    def _guard(self, writer: Callable[[], None]) -> None:
        me = threading.get_ident()
        self._go[me] = threading.Semaphore(0)
        try:
            self.step()
            writer()
        except BaseException as error:
            self._errors.append(error)
        finally:
            del self._go[me]
            self._parked.release()


class SteppingStore(FaultStore):
    """A store that lets other writers run before every call, and lists as a directory does.

    A listing contains every key that existed when it began, and an arbitrary part of those created while it ran: later
    entries may be listed while earlier ones are missing.
    """

    def __init__(self, inner: Store, interleaving: Interleaving) -> None:
        super().__init__(inner, lambda call, key: interleaving.step())
        self._interleaving = interleaving

    def list(self, prefix: str, *, after: str = "") -> Iterator[str]:
        self._interleaving.step()
        before = set(self.inner.list(prefix, after=after))
        self._interleaving.step()
        for key in self.inner.list(prefix, after=after):
            if key in before or self._interleaving.choose(2):
                yield key
