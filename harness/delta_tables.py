"""Reads a Delta table's rows from its log and its Parquet files, as an engine without Streamkeeper and Spark does.

Streamkeeper's code only fetches the files.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from streamkeeper.checkpoints.opening import tree_at


def read_delta(table: str, columns: list[str]) -> list[tuple[Any, ...]]:
    """Return the named columns of all rows of the newest commit; no row if there is no table.

    The log must still have all of its commits, and the table no partitions and no deletion vectors.
    """
    tree = tree_at(table)
    files: dict[str, None] = {}
    for name in tree.names("_delta_log"):
        for line in (
            tree.read(f"_delta_log/{name}").splitlines() if name[:20].isdigit() and name[20:] == ".json" else ()
        ):
            action = json.loads(line)
            if "remove" in action:
                files.pop(action["remove"]["path"], None)
            if "add" in action:
                assert "deletionVector" not in action["add"]
                files[action["add"]["path"]] = None
    read = [pq.ParquetFile(BytesIO(tree.read(unquote(path)))).read(columns=columns).to_pylist() for path in files]
    return [tuple(row[name] for name in columns) for rows in read for row in rows]
