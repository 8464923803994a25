"""Events that wake the driver's main thread: nudges, progress, terminated queries, a terminated JVM, a comparison."""

from __future__ import annotations

import queue
import signal
from enum import Enum
from types import FrameType


class Wakeup(Enum):
    """The reason to wake the main thread."""

    NUDGE = "nudge"
    PROGRESS = "progress"
    FIRST_TRIGGER = "first-trigger"
    ENDED = "ended"
    LOOKED = "looked"
    COMPARED = "compared"
    JVM_DIED = "jvm-died"


class Wakeups:
    """A mailbox for reasons to wake the main thread. A signal handler may use it, because SimpleQueue is re-entrant,
    unlike an Event.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Wakeup] = queue.SimpleQueue()

    def ring(self, why: Wakeup) -> None:
        """Wake the waiting thread. Any thread and a signal handler may call this."""
        self._queue.put(why)

    def wait(self, timeout_s: float) -> set[Wakeup]:
        """Wait until the main thread is woken, and return all reasons so far; empty if ``timeout_s`` seconds pass
        without any.
        """
        found: set[Wakeup] = set()
        try:
            found.add(self._queue.get(timeout=max(0.0, timeout_s)))
            while True:
                found.add(self._queue.get_nowait())
        except queue.Empty:
            return found

    def take_nudges(self) -> None:
        """Install a signal handler that treats SIGUSR1 as a request to check for commands."""

        def handle(_number: int, _frame: FrameType | None) -> None:
            self.ring(Wakeup.NUDGE)

        signal.signal(signal.SIGUSR1, handle)
