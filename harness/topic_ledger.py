"""Compares the output of the topic's jobs with the events that were sent: events of one customer are read in their
order.

So the output for a customer is compared with as many of that customer's first events; those after them are in flight.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.errors import UndefinedTable
from psycopg.rows import dict_row

from harness.ledger import Account, Totals, compare_events, compare_totals
from harness.topic_feed import Event

Counts = dict[tuple[str, str], Totals]
"""(customer, minute) -> the number of events of that minute, their amount, and the largest amount if the table contains
it.
"""


Database = Path | Connection
"""The path of an SQLite file, or a connection returned by ``connect``."""


def connect(url: str) -> Connection:
    """Return a connection to a PostgreSQL server, for use in ``with``: it may read in several threads, and returns
    times in UTC.
    """
    # Nothing is prepared: what a view shows changes its columns with a cutover.
    return Connection.connect(url, options="-c timezone=UTC", autocommit=True, prepare_threshold=None)


def read_counts(database: Database) -> Counts:
    """Return the table of event_counts; empty while the table does not exist. The table does not contain ``squares``,
    so they are 0.
    """
    return counts_in(_read(database, "SELECT * FROM event_counts"))


def counts_in(rows: Iterable[Mapping[str, Any]]) -> Counts:
    """Return the counts in rows of the table of event_counts."""
    return {(row["customer"], str(row["minute"])[:16]): _totals(row) for row in rows}


def read_sums(database: Database) -> dict[str, Totals]:
    """Return the same table summed by customer; for a reader that polls all the time, this takes a hundredth of the
    time of ``read_counts``.
    """
    query = "SELECT customer, SUM(events) AS events, SUM(amount) AS amount FROM event_counts GROUP BY customer"
    return {row["customer"]: _totals(row) for row in _read(database, query)}


def sums_of(counts: Counts) -> dict[str, Totals]:
    """Return counts summed by customer, as ``read_sums`` does."""
    found: dict[str, Totals] = {}
    for (customer, _), each in counts.items():
        before = found.get(customer, Totals())
        found[customer] = Totals(before.count + each.count, before.total + each.total)
    return found


def read_table(database: Database) -> list[Event]:
    """Return the rows of event_table; no rows while the table does not exist."""
    rows = _read(database, "SELECT event_id, customer, kind, amount, at FROM events")
    return [Event(**{**row, "at": _iso(str(row["at"]))}) for row in rows]


def counts_of(events: Iterable[Event]) -> Counts:
    """Return the counts that event_counts must compute from the events."""
    found: Counts = {}
    for each in events:
        key = (each.customer, each.minute)
        found[key] = found.get(key, Totals()).plus(each.amount)
    return {key: msgspec.structs.replace(each, squares=0) for key, each in found.items()}


def counts_so_far(name: str, events: Sequence[Event], found: Mapping[tuple[str, str], Totals]) -> Account:
    """Return the account of the counts: for each customer, as many of the first events are compared as are counted."""
    counted: Counter[str] = Counter()
    for (customer, _), each in found.items():
        counted[customer] += each.count
    first = [each for number, each in _numbered(events) if number < counted[each.customer]]
    account = compare_totals(name, _told(counts_of(first)), _told(found))
    return msgspec.structs.replace(account, produced=len(events), in_flight=max(0, len(events) - counted.total()))


def table_so_far(name: str, events: Sequence[Event], found: Sequence[Event]) -> Account:
    """Return the account of the table: for each customer, all events up to the last one in the table are compared with
    the table's rows.
    """
    reached: dict[str, int] = defaultdict(lambda: -1)
    there = {each.event_id for each in found}
    for number, each in _numbered(events):
        if each.event_id in there:
            reached[each.customer] = number
    first = [each for number, each in _numbered(events) if number <= reached[each.customer]]
    account = compare_events(name, map(_line, first), map(_line, found))
    return msgspec.structs.replace(account, produced=len(events), in_flight=len(events) - len(first))


def _numbered(events: Iterable[Event]) -> Iterable[tuple[int, Event]]:
    """Yield each event with its number among the events of its customer."""
    seen: Counter[str] = Counter()
    for each in events:
        yield seen[each.customer], each
        seen[each.customer] += 1


def _told(counts: Mapping[tuple[str, str], Totals]) -> dict[str, Totals]:
    return {f"{customer} at {minute}": each for (customer, minute), each in counts.items()}


def _iso(at: str) -> str:
    return at[:19].replace(" ", "T") + "Z"


def _line(event: Event) -> str:
    return msgspec.json.encode(event).decode()


def _totals(row: Mapping[str, Any]) -> Totals:
    return Totals(int(row["events"]), int(row["amount"]), 0, row.get("largest"))


def _read(database: Database, query: str) -> list[dict[str, Any]]:
    return _read_sqlite(database, query) if isinstance(database, Path) else _read_postgres(database, query)


def _read_postgres(connection: Connection, query: str) -> list[dict[str, Any]]:
    try:
        return connection.cursor(row_factory=dict_row).execute(query).fetchall()
    except UndefinedTable:
        return []


def _read_sqlite(file: Path, query: str) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(query)]
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
