"""Reads a Delta table's rows from its log and its Parquet files, as an engine without Streamkeeper and Spark does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq


def read_delta(table: Path, columns: list[str]) -> list[tuple[Any, ...]]:
    """Return the named columns of all rows of the newest commit; no row if there is no table.

    The log must still have all of its commits, and the table no partitions and no deletion vectors.
    """
    files: dict[str, None] = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "remove" in action:
                files.pop(action["remove"]["path"], None)
            if "add" in action:
                assert "deletionVector" not in action["add"]
                files[action["add"]["path"]] = None
    read = [pq.ParquetFile(table / unquote(path)).read(columns=columns).to_pylist() for path in files]
    return [tuple(row[name] for name in columns) for rows in read for row in rows]
