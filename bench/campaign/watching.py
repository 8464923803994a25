"""A reader of the serving table: while a deploy switches, its sum never goes back and the table is never missing."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import msgspec

PAUSE_S = 0.05


class Sight(msgspec.Struct, frozen=True):
    """What was seen from ``at`` (seconds since the epoch) on; ``count`` is None where there was no table."""

    at: float
    count: int | None


class Watch:
    """Sums up a column of a table again and again, in a thread; a context manager."""

    def __init__(self, warehouse: Path, table: str = "totals", column: str = "sales") -> None:
        self._warehouse, self._table, self._column = warehouse, table, column
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name=f"watch {table}", daemon=True)
        self._began = time.monotonic()
        self._ended = self._began
        self.sights: list[Sight] = []
        self.looks = 0

    def __enter__(self) -> Watch:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()
        self._ended = time.monotonic()

    @property
    def looks_per_s(self) -> float:
        """How often it has looked."""
        return round(self.looks / max(self._ended - self._began, 0.001), 1)

    def _look(self) -> None:
        while not self._over.wait(PAUSE_S):
            try:
                count = self._read()
            except sqlite3.OperationalError as error:
                if "no such table" not in str(error):
                    # Busy, or not there at all yet: that is no sight.
                    continue
                count = None
            self.looks += 1
            if not self.sights or self.sights[-1].count != count:
                self.sights.append(Sight(time.time(), count))

    def _read(self) -> int:
        # A connection of its own each time, as readers come: none keeps an old table alive.
        connection = sqlite3.connect(f"file:{self._warehouse}?mode=ro", uri=True, timeout=10)
        try:
            found = connection.execute(f"SELECT coalesce(sum({self._column}), 0) FROM {self._table}").fetchone()
        finally:
            connection.close()
        return int(found[0])


def find_steps_back(sights: list[Sight], *, until: float = float("inf")) -> list[str]:
    """Where the sum went back or the table was gone, among what was seen before ``until``."""
    newest, found = 0, []
    for sight in sights:
        if sight.at >= until:
            break
        if sight.count is None:
            if newest:
                found.append(f"a reader found no table after a sum of {newest}")
            continue
        if sight.count < newest:
            found.append(f"a reader saw a sum of {sight.count} after {newest}")
        newest = max(newest, sight.count)
    return found
