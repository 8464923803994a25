"""A reader of the serving table: during a deploy its sum must never go back and the table must never be missing."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import psycopg

PAUSE_S = 0.05


class NoSight(Exception):
    """Raised when nothing could be read: the database is busy or does not exist yet."""


class Sight(msgspec.Struct, frozen=True):
    """What was read from ``at`` (seconds since the epoch) on; ``count`` is None if the table was missing."""

    at: float
    count: int | None


class Watch:
    """A context manager that reads a sum repeatedly in a thread.

    ``read``: returns the sum, or None if the table is missing; raises NoSight.
    """

    def __init__(self, read: Callable[[], int | None]) -> None:
        self._read = read
        self._over = threading.Event()
        self._failed: Exception | None = None
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
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
        if self._failed is not None:
            raise RuntimeError("the reader of the serving table failed") from self._failed

    @property
    def looks_per_s(self) -> float:
        """The number of reads per second."""
        return round(self.looks / max(self._ended - self._began, 0.001), 1)

    def _look(self) -> None:
        while not self._over.wait(PAUSE_S):
            try:
                count = self._read()
            except NoSight:
                continue
            except Exception as error:
                self._failed = error
                return
            self.looks += 1
            if not self.sights or self.sights[-1].count != count:
                self.sights.append(Sight(time.time(), count))


def sum_in_file(warehouse: Path, table: str = "totals", column: str = "sales") -> int | None:
    """Return the sum of a column in an SQLite table, None if the table is missing; raises NoSight."""
    # A connection of its own each time, as readers come: none keeps an old table alive.
    try:
        with closing(sqlite3.connect(f"file:{warehouse}?mode=ro", uri=True, timeout=10)) as connection:
            found = connection.execute(f"SELECT coalesce(sum({column}), 0) FROM {table}").fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise NoSight from error
    return int(found[0])


def sum_in_database(url: str) -> int | None:
    """Return the sum of ``sales`` in ``totals`` of a PostgreSQL database, None if the table is missing; raises
    NoSight.
    """
    try:
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT coalesce(sum(sales), 0) FROM totals").fetchone()
    except psycopg.errors.UndefinedTable:
        return None
    except psycopg.OperationalError as error:
        raise NoSight from error
    assert found is not None
    return int(found[0])


def find_steps_back(sights: list[Sight], *, until: float = float("inf")) -> list[str]:
    """Return where the sum went back or the table was missing, among what was read before ``until``."""
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
