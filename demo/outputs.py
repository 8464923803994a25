"""What came out, read without Spark: the totals from SQLite, the event ids from Parquet through Spark's sink log."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from demo.ledger import Totals
from streamkeeper.errors import InvalidInput
from streamkeeper.sinks.file import newest_epoch

_LOG = "_spark_metadata"


def read_totals(warehouse: Path, table: str = "sales_totals") -> dict[str, Totals]:
    """Per customer, as the table holds it; empty while there is no table."""
    if not warehouse.exists():
        return {}
    connection = sqlite3.connect(f"file:{warehouse}?mode=ro", uri=True, timeout=10)
    try:
        rows = connection.execute(f"SELECT customer, sales, total, squares FROM {table}").fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return {}
        raise
    finally:
        connection.close()
    return {customer: Totals(int(sales), int(total), int(squares)) for customer, sales, total, squares in rows}


def read_event_ids(output: Path) -> Iterator[str]:
    """Every event id of the serving version, as often as it stands there; none while nothing was written."""
    import pyarrow.parquet

    claim = newest_epoch(output)
    if claim is None:
        return
    for file in listed_files(output / claim.version):
        column = pyarrow.parquet.read_table(file, columns=["event_id"]).column("event_id")
        yield from (str(value) for value in column.to_pylist())


def listed_files(version: Path) -> list[Path]:
    """The files that Spark's sink log lists: files that it does not list are of no batch.

    ``N.compact`` holds everything up to batch N; only batches after the newest one are read from their own files.
    """
    log = version / _LOG
    if not log.is_dir():
        return []
    names = [entry.name for entry in log.iterdir() if not entry.name.startswith(".")]
    compacted = max((int(name.removesuffix(".compact")) for name in names if name.endswith(".compact")), default=-1)
    later = sorted(int(name) for name in names if name.isdecimal() and int(name) > compacted)
    read = [log / f"{compacted}.compact"] if compacted >= 0 else []
    files: dict[Path, None] = {}
    for entry in [*read, *(log / str(number) for number in later)]:
        for path, action in _read_log(entry):
            if action == "add":
                files[path] = None
            else:
                files.pop(path, None)
    return list(files)


def _read_log(file: Path) -> Iterator[tuple[Path, str]]:
    lines = file.read_text().splitlines()
    if not lines or lines[0] != "v1":
        raise InvalidInput(f"{file} is not a sink log of a known version: {lines[:1]}")
    for line in lines[1:]:
        entry = json.loads(line)
        yield Path(unquote(urlsplit(entry["path"]).path)), entry["action"]
