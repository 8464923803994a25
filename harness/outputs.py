"""What came out, read without Spark: the totals from SQLite, the event ids from Parquet through Spark's sink log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from harness.ledger import Totals
from streamkeeper.sinks.file_serving import serving_files


def read_totals(warehouse: Path, table: str = "sales_totals") -> dict[str, Totals]:
    """Per customer, as the table holds it, whichever release's columns it has; empty while there is no table."""
    if not warehouse.exists():
        return {}
    connection = sqlite3.connect(f"file:{warehouse}?mode=ro", uri=True, timeout=10)
    connection.row_factory = sqlite3.Row
    try:
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return {}
        raise
    finally:
        connection.close()
    return {row["customer"]: _totals(row) for row in rows}


def _totals(row: sqlite3.Row) -> Totals:
    largest = int(row["largest"]) if "largest" in row.keys() else None  # noqa: SIM118 (a Row iterates over values)
    return Totals(int(row["sales"]), int(row["total"]), int(row["squares"]), largest)


def read_event_ids(output: Path) -> Iterator[str]:
    """Every event id of the versions that serve, as often as it stands there; none while nothing was written."""
    import pyarrow.parquet

    for file in serving_files(output):
        column = pyarrow.parquet.read_table(file, columns=["event_id"]).column("event_id")
        yield from (str(value) for value in column.to_pylist())
