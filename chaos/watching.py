"""A reader of the serving table: while a deploy switches, its sum never goes back and the table is never missing."""

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
    """Nothing could be read just then: the database is busy, or not there yet."""


class Sight(msgspec.Struct, frozen=True):
    """What was seen from ``at`` (seconds since the epoch) on; ``count`` is None where there was no table."""

    at: float
    count: int | None


class Watch:
    """Reads a sum again and again, in a thread; a context manager.

    ``read``: the sum, None where there is no table; raises NoSight.
    """

    def __init__(self, read: Callable[[], int | None]) -> None:
        self._read = read
        self._over = threading.Event()
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

    @property
    def looks_per_s(self) -> float:
        """How often it has looked."""
        return round(self.looks / max(self._ended - self._began, 0.001), 1)

    def _look(self) -> None:
        while not self._over.wait(PAUSE_S):
            try:
                count = self._read()
            except NoSight:
                continue
            self.looks += 1
            if not self.sights or self.sights[-1].count != count:
                self.sights.append(Sight(time.time(), count))


def sum_in_file(warehouse: Path, table: str = "totals", column: str = "sales") -> int | None:
    """A column of a table of SQLite's, summed up; raises NoSight."""
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
    """The sales of all ``totals`` in a database of PostgreSQL's; raises NoSight."""
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
