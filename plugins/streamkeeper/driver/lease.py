"""The heartbeat, and the lease: a driver that has not reached the store for the lease's duration terminates itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.wakeups import Wakeup, Wakeups
from streamkeeper.errors import PermanentError, StoreUnavailable
from streamkeeper.system import clock

HEARTBEAT_S = 12.0
_JOURNAL_EVERY = 4
"""The heartbeat reads the journal once per this number of beats. An idle driver makes 2 requests per 12 s, one more per
48 s, and one for its history per 2 minutes: 0.2 requests per second.
"""
_TICKS = 20
_FROZEN = 4


class Heartbeat:
    """Reads the store and writes the driver's status regularly from its own thread. After any thread has written the
    status, the heartbeat waits for a full period before it writes.
    """

    def __init__(self, life_s: float, channel: DriverChannel, tell: Callable[[], None], wakeups: Wakeups) -> None:
        self._period_s = min(HEARTBEAT_S, life_s / 4)
        self._retry_s = life_s / _TICKS
        self._channel = channel
        self._tell = tell
        self._wakeups = wakeups

    def start(self) -> None:
        """Start a thread that contacts the store until the process exits."""
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def _beat(self) -> None:
        beats = 0
        while True:
            clock.sleep(max(self._retry_s, self._channel.told_at + self._period_s - clock.monotonic()))
            if clock.monotonic() - self._channel.told_at < self._period_s:
                continue
            try:
                if beats % _JOURNAL_EVERY:
                    self._channel.look_for_commands(max_age_s=self._period_s)
                else:
                    self._channel.look(max_age_s=self._period_s)
                self._tell()
                beats += 1
            except StoreUnavailable:
                # The heartbeat retries soon; the lease limits for how long.
                continue
            except PermanentError as error:
                # Records that it has read are missing from the store: only the main thread can end the driver.
                self._channel.lost = error
            self._wakeups.ring(Wakeup.LOOKED)


class Lease:
    """The lease of this driver. It expires when the store has not answered for the lease's duration; ``on_expiry`` is
    then called with the seconds since the last answer. A separate thread monitors this, because other threads may hang
    in a request.

    A process that was paused finds its lease expired when it resumes. It then has a quarter of the lease's duration to
    reach the store. The gate and the sink's fence protect writes; the lease does not.
    """

    def __init__(self, life_s: float, answered_at: Callable[[], float], on_expiry: Callable[[float], None]) -> None:
        self._life_s = life_s
        self._answered_at = answered_at
        self._on_expiry = on_expiry

    def start(self) -> None:
        """Start a thread that checks the lease until the process exits."""
        threading.Thread(target=self._watch, name="lease", daemon=True).start()

    def _watch(self) -> None:
        tick = self._life_s / _TICKS
        before, grace_until = clock.monotonic(), 0.0
        while True:
            clock.sleep(tick)
            now = clock.monotonic()
            if now - before > _FROZEN * tick:
                grace_until = now + self._life_s / _FROZEN
            before = now
            silent_s = now - self._answered_at()
            if silent_s > self._life_s and now > grace_until:
                self._on_expiry(silent_s)
                return
