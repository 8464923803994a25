"""Reads the output without Spark: the totals from SQLite, the event ids from Parquet files that Spark's sink log
names.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from harness.ledger import Totals
from streamkeeper.sinks.file_serving import serving_files


def read_totals(warehouse: Path, table: str = "sales_totals") -> dict[str, Totals]:
    """Return the totals per customer from the table, with the columns of any release; empty if the table does not
    exist.
    """
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
    """Yield every event id of the current output versions, as often as it occurs; none if nothing was written yet."""
    import pyarrow.parquet

    for file in serving_files(output):
        column = pyarrow.parquet.read_table(file, columns=["event_id"]).column("event_id")
        yield from (str(value) for value in column.to_pylist())
