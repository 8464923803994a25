"""Reads a Delta table's rows from its log and its Parquet files, as an engine without Streamkeeper and Spark does.

Streamkeeper's code only fetches the files.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from streamkeeper.checkpoints.opening import tree_at

Row = dict[str, Any]


def read_delta(table: str, columns: list[str]) -> list[tuple[Any, ...]]:
    """Return the named columns of all rows of the newest commit, as ``DeltaReader.rows`` does."""
    return [tuple(row[name] for name in columns) for row in DeltaReader(table).rows()]


class DeltaReader:
    """Reads a table repeatedly. Each read takes only the commits and files that are new. Threads may share it.

    The log must still have all of its commits, and the table no partitions and no deletion vectors.
    """

    def __init__(self, table: str) -> None:
        self._tree = tree_at(table)
        self._lock = threading.Lock()
        self._next = 0
        self._files: dict[str, list[Row] | None] = {}
        self._rows: list[Row] = []

    @property
    def is_missing(self) -> bool:
        """Whether the table has no commit, or no longer has the newest one that was read."""
        with self._lock:
            return not self._tree.has(f"_delta_log/{max(self._next - 1, 0):020}.json")

    def rows(self) -> list[Row]:
        """Return all rows of the newest commit; no row if there is no table."""
        with self._lock:
            before = self._next
            with suppress(FileNotFoundError):
                while True:
                    self._follow(self._tree.read(f"_delta_log/{self._next:020}.json"))
                    self._next += 1
            if self._next > before:
                self._rows = [row for path in self._files for row in self._read(path)]
            return self._rows

    def _follow(self, commit: bytes) -> None:
        actions = [json.loads(line) for line in commit.splitlines()]
        for removed in (action["remove"]["path"] for action in actions if "remove" in action):
            self._files.pop(removed, None)
        for added in (action["add"] for action in actions if "add" in action):
            assert "deletionVector" not in added
            self._files.setdefault(added["path"], None)

    def _read(self, path: str) -> list[Row]:
        """Return the rows of a file; it is read once, and only if the newest commit has it."""
        rows = self._files[path]
        if rows is None:
            rows = pq.ParquetFile(BytesIO(self._tree.read(unquote(path)))).read().to_pylist()
            self._files[path] = rows
        return rows
