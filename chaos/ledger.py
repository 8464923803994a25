"""The checks after every case: all three outputs must match the input files, and only one driver may write at a
time.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from harness.delta_tables import DeltaReader, read_delta
from harness.ledger import Account, Totals, compare_events, compare_totals, read_rows, totals_of
from harness.outputs import read_event_ids, read_totals


def read_accounts(input_: Path, output: Path) -> list[Account]:
    """Return one account per query of the ``ledgers`` job."""
    totals, copies = read_totals(output / "warehouse.db", "totals"), read_event_ids(output / "copies")
    return _accounts_of(input_, output, totals, copies)


def read_append_accounts(input_: Path, output: Path) -> list[Account]:
    """Return one account per query of the job that writes its copies to a table without a key."""
    database = output / "warehouse.db"
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        copies = [event for (event,) in connection.execute("SELECT event_id FROM copies")]
    return _accounts_of(input_, output, read_totals(database, "totals"), copies)


def read_delta_accounts(input_: Path, output: Path) -> list[Account]:
    """Return one account per query of the job that writes to Delta tables."""
    totals: dict[str, Totals] = {}
    for row in DeltaReader(str(output / "totals")).rows():
        # Two rows of one customer are added, so that their sales count as duplicated.
        other = totals.get(row["customer"], Totals())
        totals[row["customer"]] = Totals(
            other.count + row["sales"],
            other.total + row["total"],
            other.squares + row["squares"],
            row.get("largest"),
        )
    copies = [event for (event,) in read_delta(str(output / "copies"), ["event_id"])]
    return _accounts_of(input_, output, totals, copies)


def _accounts_of(input_: Path, output: Path, totals: Mapping[str, Totals], copies: Iterable[str]) -> list[Account]:
    events = [row[0] for row in read_rows(input_ / "events")]
    return [
        compare_totals("totals", totals_of(read_rows(input_ / "sales")), totals),
        compare_events("copies", events, copies),
        compare_events("audit", events, audited_ids(output)),
    ]


def read_table_accounts(input_: Path, database: str) -> list[Account]:
    """Return one account per query of the job that writes both of its tables to PostgreSQL."""
    sales, events = (read_rows(input_ / name) for name in ("sales", "events"))
    totals = _read(database, "SELECT customer, sales, total, squares, to_jsonb(totals) -> 'largest' FROM totals")
    copies = _read(database, "SELECT event_id FROM copies")
    found = {
        customer: Totals(int(count), int(total), int(squares), largest)
        for customer, count, total, squares, largest in totals
    }
    return [
        compare_totals("totals", totals_of(sales), found),
        compare_events("copies", [row[0] for row in events], [event for (event,) in copies]),
    ]


def _read(database: str, query: str) -> list[tuple[Any, ...]]:
    try:
        with psycopg.connect(database) as connection:
            return connection.execute(query).fetchall()
    except psycopg.errors.UndefinedTable:
        return []


def audited_ids(output: Path) -> list[str]:
    """Return every event id of the audit; a replayed batch counts once."""
    batches = {line["batch"]: line["ids"] for line in _audit(output)}
    return [event for ids in batches.values() for event in ids]


def find_second_writers(output: Path) -> list[str]:
    """Return the audit lines of an epoch that follow a line of a newer one: two drivers wrote at the same time."""
    newest, found = 0, []
    for line in _audit(output):
        if line["epoch"] < newest:
            found.append(f"epoch {line['epoch']} wrote batch {line['batch']} after epoch {newest}")
        newest = max(newest, line["epoch"])
    return found


def find_changed_batches(output: Path) -> list[str]:
    """Return the batches that were replayed with different content under the same id."""
    contents: dict[int, set[tuple[str, ...]]] = {}
    for line in _audit(output):
        contents.setdefault(line["batch"], set()).add(tuple(sorted(line["ids"])))
    return [f"batch {batch} came with {len(each)} contents" for batch, each in contents.items() if len(each) > 1]


def count_replays(output: Path) -> int:
    """Return how often a batch was replayed under its own id."""
    return sum(count - 1 for count in Counter(line["batch"] for line in _audit(output)).values())


def _audit(output: Path) -> list[dict[str, Any]]:
    file = output / "audit.jsonl"
    if not file.exists():
        return []
    whole = file.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]
