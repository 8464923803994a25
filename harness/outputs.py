"""Reads the output without Spark: the totals from SQLite, and rows from the Parquet files that Spark's sink log names.

Streamkeeper's code only finds and fetches the files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from harness.ledger import Totals
from streamkeeper.checkpoints.opening import tree_at
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
    return (str(event) for (event,) in read_rows(str(output), ["event_id"]))


def read_rows(output: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the named columns of every row of the current output versions, as often as it occurs; none if nothing was
    written yet. The values of partition columns are texts.

    ``output``: a directory, ``s3a://bucket/prefix`` or ``hdfs://namenode:port/path``.
    """
    import pyarrow.parquet

    for file in serving_files(output):
        folder, _, name = file.rpartition("/")
        parts = (part.partition("=") for part in folder[len(output) :].split("/"))
        placed = {column: unquote(value) for column, found, value in parts if found}
        content = pyarrow.parquet.ParquetFile(BytesIO(tree_at(folder).read(name)))
        stored = [column for column in columns if column not in placed]
        for row in content.read(columns=stored).to_pylist():
            yield tuple((placed | row)[column] for column in columns)
