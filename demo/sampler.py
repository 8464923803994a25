"""Polls the current table and records whether the table was ever missing or a total ever decreased."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from types import TracebackType
from typing import Any, Self

from harness.ledger import Totals

Found = Mapping[Hashable, Totals]
Read = Callable[[], Mapping[Any, Totals]]


class Samples:
    """The observations so far. All moments are in seconds of the same clock."""

    def __init__(self) -> None:
        self.count = 0
        self.wrong: list[str] = []
        self.longest_pause_s = 0.0
        self.longest_still_s = 0.0
        self._last: Found = {}
        self._began_at = self._last_at = self._moved_at = 0.0

    def note(self, moment: float, found: Mapping[Any, Totals]) -> None:
        """Record one reading of the whole table. An empty reading counts as a missing table."""
        if self.count == 0:
            self._began_at = self._last_at = self._moved_at = moment
        self.count += 1
        self.longest_pause_s = max(self.longest_pause_s, moment - self._last_at)
        self._last_at = moment
        if not found:
            self.wrong.append("the table was missing, or empty")
            return
        plain = {name: each.plain for name, each in found.items()}
        self.wrong += _backwards(self._last, plain)
        if plain != self._last:
            self._moved_at = moment
        self.longest_still_s = max(self.longest_still_s, moment - self._moved_at)
        self._last = plain

    @property
    def per_second(self) -> float:
        """Return the average number of readings per second."""
        return (self.count - 1) / max(self._last_at - self._began_at, 1e-9)

    @property
    def sentence(self) -> str:
        """Return a summary of the observations in one sentence."""
        seen = (
            f"{self.count} readings, {self.per_second:.0f} a second, never more than {self.longest_pause_s:.2f} s apart"
        )
        if self.wrong:
            return f"{seen}: {len(self.wrong)} of them wrong: {'; '.join(self.wrong[:3])}"
        return (
            f"{seen}: the table was never missing and no total went backwards;"
            f" it stood still for {self.longest_still_s:.1f} s at most"
        )


class Sampler:
    """Reads the table in its own thread while the body of ``with`` runs. ``samples`` is complete after the body."""

    def __init__(self, read: Read, *, every_s: float = 0.04) -> None:
        self.samples = Samples()
        self._read, self._every_s = read, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.is_set():
            try:
                self.samples.note(time.monotonic(), self._read())
            except Exception as error:
                self.samples.wrong.append(f"it could not be read: {type(error).__name__}: {error}")
            self._stop.wait(self._every_s)


def _backwards(before: Found, after: Found) -> list[str]:
    found: list[str] = []
    for name, was in before.items():
        now = after.get(name, Totals())
        if now.count < was.count or now.total < was.total or now.squares < was.squares:
            found.append(f"{name} went from {was.count} sales ({was.total}) to {now.count} ({now.total})")
    return found
