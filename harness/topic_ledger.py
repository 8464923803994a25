"""What came out of the topic's jobs against what went in: events of one customer are read in their order.

So what came out for a customer is held against as many of that customer's first events; those after them are in flight.
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
"""(customer, minute) -> the events of that minute, their amount, and the largest where the table has it."""


Database = Path | Connection
"""SQLite's file, or a connection of ``connect``."""


def connect(url: str) -> Connection:
    """To a PostgreSQL, for ``with``: it may read in several threads, and tells moments in UTC."""
    # Nothing is prepared: what a view shows changes its columns with a cutover.
    return Connection.connect(url, options="-c timezone=UTC", autocommit=True, prepare_threshold=None)


def read_counts(database: Database) -> Counts:
    """The table of event_counts; empty while there is none. ``squares`` are not kept there: 0."""
    rows = _read(database, "SELECT * FROM event_counts")
    return {(row["customer"], str(row["minute"])[:16]): _totals(row) for row in rows}


def read_sums(database: Database) -> dict[str, Totals]:
    """The same table added up by customer, which takes a reader that looks all the time a hundredth of that."""
    query = "SELECT customer, SUM(events) AS events, SUM(amount) AS amount FROM event_counts GROUP BY customer"
    return {row["customer"]: _totals(row) for row in _read(database, query)}


def read_table(database: Database) -> list[Event]:
    """The rows of event_table; none while there is no table."""
    rows = _read(database, "SELECT event_id, customer, kind, amount, at FROM events")
    return [Event(**{**row, "at": _iso(str(row["at"]))}) for row in rows]


def counts_of(events: Iterable[Event]) -> Counts:
    """What event_counts has to make of them."""
    found: Counts = {}
    for each in events:
        key = (each.customer, each.minute)
        found[key] = found.get(key, Totals()).plus(each.amount)
    return {key: msgspec.structs.replace(each, squares=0) for key, each in found.items()}


def counts_so_far(name: str, events: Sequence[Event], found: Mapping[tuple[str, str], Totals]) -> Account:
    """The account of the counts: of each customer as many of the first events as are counted."""
    counted: Counter[str] = Counter()
    for (customer, _), each in found.items():
        counted[customer] += each.count
    first = [each for number, each in _numbered(events) if number < counted[each.customer]]
    account = compare_totals(name, _told(counts_of(first)), _told(found))
    return msgspec.structs.replace(account, produced=len(events), in_flight=max(0, len(events) - counted.total()))


def table_so_far(name: str, events: Sequence[Event], found: Sequence[Event]) -> Account:
    """The account of the table: of each customer all up to the last event that is there, with what it holds."""
    reached: dict[str, int] = defaultdict(lambda: -1)
    there = {each.event_id for each in found}
    for number, each in _numbered(events):
        if each.event_id in there:
            reached[each.customer] = number
    first = [each for number, each in _numbered(events) if number <= reached[each.customer]]
    account = compare_events(name, map(_line, first), map(_line, found))
    return msgspec.structs.replace(account, produced=len(events), in_flight=len(events) - len(first))


def _numbered(events: Iterable[Event]) -> Iterable[tuple[int, Event]]:
    """Each with its number among its customer's."""
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
