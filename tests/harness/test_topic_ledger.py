"""Tests the ledger of the topic's jobs: events in flight, lost and duplicated."""

from __future__ import annotations

import itertools
import sqlite3
from pathlib import Path

import msgspec
import psycopg
import pytest

from harness.ledger import Totals
from harness.topic_feed import PARTITIONS, Event, make_events, read_events
from harness.topic_ledger import connect, counts_of, counts_so_far, read_counts, read_sums, read_table, table_so_far

EVENTS = list(itertools.islice(make_events(seed=1, customers=4), 300))


def some(*, first: int) -> list[Event]:
    """Return the first events of each partition, more of one partition than of the other, as a batch reads them."""
    chosen: list[Event] = []
    for partition in range(PARTITIONS):
        chosen += [each for each in EVENTS if each.partition == partition][: first + 10 * partition]
    return chosen


def test_events_of_a_partition_are_ordered_by_timestamp_with_unique_ids() -> None:
    """The events of a partition are in the order of their own timestamps, and no id is repeated."""
    assert len({each.event_id for each in EVENTS}) == 300
    for partition in range(PARTITIONS):
        times = [each.at for each in EVENTS if each.partition == partition]
        assert times == sorted(times)
        assert times


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    """Only lines that were written completely are read; an incomplete last line is left out."""
    file = tmp_path / "produced.jsonl"
    lines = [msgspec.json.encode(each) for each in EVENTS[:3]]
    file.write_bytes(b"\n".join(lines))
    assert read_events(file) == EVENTS[:2]
    assert read_events(tmp_path / "none") == []


def test_output_with_the_first_events_of_each_partition_is_clean() -> None:
    """Output that covers the first events of each partition is clean whatever its progress per partition, and the rest
    is in flight.
    """
    out = some(first=40)
    counts, table = counts_so_far("c", EVENTS, counts_of(out)), table_so_far("t", EVENTS, out)
    assert counts.clean
    assert table.clean
    assert counts.in_flight == table.in_flight == 300 - len(out)


def test_a_missing_event_is_detected_in_the_counts_and_the_table() -> None:
    """A missing event is detected in the counts by the shortfall of its minute and in the table by its id."""
    out = some(first=40)
    del out[5]
    assert not counts_so_far("c", EVENTS, counts_of(out)).clean
    assert table_so_far("t", EVENTS, out).lost == 1


def test_a_duplicated_or_modified_event_is_detected() -> None:
    """A duplicated event and an event with a changed amount are both detected."""
    out = some(first=40)
    assert not counts_so_far("c", EVENTS, counts_of([*out, out[3]])).clean
    assert not counts_so_far("c", EVENTS, counts_of([*EVENTS, EVENTS[0]])).clean
    assert table_so_far("t", EVENTS, [*out, out[3]]).duplicated == 1
    out[3] = msgspec.structs.replace(out[3], amount=-1)
    assert not table_so_far("t", EVENTS, out).clean


def test_counts_and_events_are_read_from_sqlite(tmp_path: Path) -> None:
    """Counts, sums and events are read from SQLite, where timestamps are text; a database without the tables yields
    none.
    """
    file = tmp_path / "warehouse.db"
    assert (read_counts(file), read_table(file)) == ({}, [])
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE event_counts (customer, minute, events, amount)")
        connection.execute("INSERT INTO event_counts VALUES ('c001', '2026-03-01 00:07:00.000000', 2, 30)")
        connection.execute("CREATE TABLE events (event_id, customer, kind, amount, at)")
        connection.execute("INSERT INTO events VALUES ('e1', 'c001', 'sale', 10, '2026-03-01 00:07:01.000000')")
        connection.execute("INSERT INTO event_counts VALUES ('c001', '2026-03-01 00:08:00.000000', 1, 5)")
    assert read_counts(file)["c001", "2026-03-01 00:07"] == Totals(2, 30)
    assert read_sums(file) == {"c001": Totals(3, 35)}
    assert read_table(file) == [Event("e1", "c001", "sale", 10, "2026-03-01T00:07:01Z")]


@pytest.mark.postgres
def test_both_tables_are_read_from_postgresql(postgres_server: str) -> None:
    """Tables in PostgreSQL are read in UTC whatever the writer's time zone; missing tables yield nothing, and columns
    may be added while the reader is connected.
    """
    with connect(postgres_server) as read, psycopg.connect(postgres_server, autocommit=True) as write:
        assert (read_counts(read), read_sums(read), read_table(read)) == ({}, {}, [])
        write.execute("SET timezone = 'Asia/Tokyo'")
        write.execute("CREATE TABLE event_counts (customer text, minute timestamptz, events bigint, amount bigint)")
        write.execute("INSERT INTO event_counts VALUES ('c001', '2026-03-01 00:07:00Z', 2, 30)")
        write.execute("INSERT INTO event_counts VALUES ('c001', '2026-03-01 00:08:00Z', 1, 5)")
        write.execute("CREATE TABLE events (event_id text, customer text, kind text, amount bigint, at timestamptz)")
        write.execute("INSERT INTO events VALUES ('e1', 'c001', 'sale', 10, '2026-03-01 00:07:01Z')")
        assert read_counts(read)["c001", "2026-03-01 00:07"] == Totals(2, 30)
        assert read_sums(read) == {"c001": Totals(3, 35)}
        assert read_table(read) == [Event("e1", "c001", "sale", 10, "2026-03-01T00:07:01Z")]
        for column in ("more", "and_more"):
            # A query that its connection has prepared, after five times, fails once the columns are others.
            counted = [read_counts(read) for _ in range(7)]
            write.execute(f"ALTER TABLE event_counts ADD COLUMN {column} bigint")
            assert counted == [read_counts(read)] * 7
        write.execute("DROP TABLE event_counts, events")
