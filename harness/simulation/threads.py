"""The parts of ``threading`` and ``queue`` that a driver uses, implemented with actors of a scheduler."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from harness.simulation.scheduler import Actor, Scheduler


class ActorLock:
    """A lock that one actor holds; ``again``: whether its holder may acquire it a second time."""

    def __init__(self, scheduler: Scheduler, *, again: bool) -> None:
        self._scheduler, self._again = scheduler, again
        self._owner: Actor | None = None
        self._depth = self._wanted = 0

    def acquire(self) -> bool:
        """Wait for the lock and acquire it. A lock whose holder's process has died is never released."""
        me = self._scheduler.current
        if me is None or (self._again and self._owner is me):
            self._depth += 1
            self._owner = me
            return True
        while self._owner is not None:
            self._wanted += 1
            try:
                self._scheduler.wait(lambda: self._owner is None)
            finally:
                self._wanted -= 1
        self._owner, self._depth = me, 1
        return True

    def release(self) -> None:
        """Release the lock."""
        self._depth -= 1
        if self._depth <= 0:
            self._owner, self._depth = None, 0
            if self._wanted and not self._scheduler.over:
                self._scheduler.wake()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class ActorCondition:
    """A condition variable over a lock."""

    def __init__(self, scheduler: Scheduler, lock: ActorLock) -> None:
        self._scheduler, self._lock = scheduler, lock

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Wait until the condition holds."""
        self._lock.release()
        try:
            return self._scheduler.wait(condition)
        finally:
            self._lock.acquire()

    def notify_all(self) -> None:
        """Wake the actors that are waiting."""
        self._scheduler.wake()


class ActorEvent:
    """A flag for which actors wait."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._is_set = scheduler, False

    def set(self) -> None:
        """Set the flag."""
        self._is_set = True
        self._scheduler.wake()

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the flag; return whether it is set."""
        return self._scheduler.wait(self.is_set, timeout)


class ActorThread:
    """A thread of the current actor's process."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        name: str = "thread",
        daemon: bool = True,
    ) -> None:
        del daemon
        self._scheduler, self._run, self._name = scheduler, (lambda: target(*args)), name
        self._actor: Actor | None = None

    def start(self) -> None:
        """Start the thread."""
        current = self._scheduler.current
        assert current is not None
        self._actor = self._scheduler.start(current.process, f"{current.process.name} {self._name}", self._run)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has finished."""
        actor = self._actor
        if actor is not None:
            self._scheduler.wait(lambda: actor.done or not actor.process.alive, timeout)


class Threading:
    """A replacement of the module ``threading``."""

    def __init__(self, present: Callable[[], Scheduler]) -> None:
        """Store ``present``, which returns the scheduler of the simulation that is running."""
        self._present = present

    def Lock(self) -> ActorLock:  # noqa: N802
        """Return a lock, as in ``threading``."""
        return ActorLock(self._present(), again=False)

    def RLock(self) -> ActorLock:  # noqa: N802
        """Return a reentrant lock, as in ``threading``."""
        return ActorLock(self._present(), again=True)

    def Condition(self, lock: ActorLock) -> ActorCondition:  # noqa: N802
        """Return a condition variable, as in ``threading``."""
        return ActorCondition(self._present(), lock)

    def Event(self) -> ActorEvent:  # noqa: N802
        """Return an event, as in ``threading``."""
        return ActorEvent(self._present())

    def Thread(self, **given: Any) -> ActorThread:  # noqa: N802
        """Return a thread, as in ``threading``."""
        return ActorThread(self._present(), **given)


class ActorQueue:
    """A queue for actors, like ``SimpleQueue`` in ``queue``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._items: list[Any] = []

    def put(self, item: Any) -> None:
        """Add an item."""
        self._items.append(item)
        self._scheduler.wake()

    def get(self, timeout: float | None = None) -> Any:
        """Return the oldest item; raises Empty if none arrives within ``timeout`` seconds."""
        if not self._scheduler.wait(lambda: bool(self._items), timeout):
            raise queue.Empty
        return self._items.pop(0)

    def get_nowait(self) -> Any:
        """Return the oldest item; raises Empty if the queue is empty."""
        if not self._items:
            raise queue.Empty
        return self._items.pop(0)


class Queues:
    """A replacement of the module ``queue``."""

    Empty = queue.Empty

    def __init__(self, present: Callable[[], Scheduler]) -> None:
        self._present = present

    def SimpleQueue(self) -> ActorQueue:  # noqa: N802
        """Return a queue, as in ``queue``."""
        return ActorQueue(self._present())


class InTurn:
    """A replacement of ``ThreadPoolExecutor``: the calls run one after the other, in the actor that waits for them."""

    def __init__(self, workers: int = 1, **_: Any) -> None:
        """Accept the arguments of the executor in ``concurrent.futures`` and ignore them."""

    def __enter__(self) -> InTurn:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing, because no call is left to wait for."""

    def map(self, call: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        """Return the results of the calls, as in ``concurrent.futures``."""
        return map(call, *items)

    def submit(self, call: Callable[..., Any], *given: Any) -> Future[Any]:
        """Return the future of a call, as in ``concurrent.futures``; the call has finished when this returns."""
        done: Future[Any] = Future()
        try:
            done.set_result(call(*given))
        except Exception as error:
            done.set_exception(error)
        return done
