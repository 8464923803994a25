"""Spark's own sink log of a file output, ``<directory>/_spark_metadata``: which files are of which batches.

Layout of Spark 4.2: a file ``N`` for each batch, ``v1`` and then one JSON line a file; every tenth one is ``N.compact``
and holds the lines of all batches up to N, which do not say of which batch they are. What is older than that is
deleted when a hundred batches and ten minutes have passed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from streamkeeper.errors import InvalidInput
from streamkeeper.sinks.whole_files import create_whole

SINK_LOG = "_spark_metadata"
_HEADER = "v1"
_INTERVAL = 10
"""Spark's own default; where a log has another one, Spark goes by its files."""


def newest_batch(directory: Path) -> int | None:
    """The newest batch id in Spark's sink log of a directory; compacted logs count."""
    return max((number for number, _ in _batches(directory)), default=None)


def listed_files(directory: Path, *, last: int | None = None) -> list[Path]:
    """The files that the sink log lists, of the batches up to ``last`` if it is given: no other file is of a batch.

    Raises InvalidInput when what is left of the log does not tell the batches up to ``last`` from later ones.
    """
    found = _batches(directory)
    known = [each for each in found if last is None or each[0] <= last]
    compacted = max((number for number, compact in known if compact), default=-1)
    later = sorted(number for number, compact in known if not compact and number > compacted)
    if last is not None and found:
        _check_whole(directory, found, compacted, later, last)
    read = [f"{compacted}.compact"] if compacted >= 0 else []
    files: dict[Path, None] = {}
    for name in [*read, *map(str, later)]:
        for path, action in _read(directory / SINK_LOG / name):
            if action == "add":
                files[path] = None
            else:
                files.pop(path, None)
    return list(files)


def begin_log(directory: Path, batch_id: int) -> None:
    """Begin a log as if the batches up to ``batch_id`` had written no file; idempotent.

    Spark reads and compacts a log from a compacted batch on, or else from batch 0: one that begins in between it calls
    damaged. Raises InvalidInput when one of those batches holds a file.
    """
    newest = newest_batch(directory)
    if newest is not None and newest > batch_id:
        return
    compacted = (batch_id + 1) // _INTERVAL * _INTERVAL - 1
    names = [f"{compacted}.compact"] if compacted >= 0 else []
    # In this order the newest batch is there only when all are.
    for name in [*names, *map(str, range(compacted + 1, batch_id + 1))]:
        file = directory / SINK_LOG / name
        if not create_whole(file, _HEADER.encode()) and file.read_text().strip() != _HEADER:
            raise InvalidInput(f"{file} holds a batch already", hint="give the output a checkpoint version of its own")


def _check_whole(directory: Path, found: set[tuple[int, bool]], compacted: int, later: list[int], last: int) -> None:
    """All batches up to ``last`` must be in the logs that are read: those that are gone stand in a later one only."""
    newest = max(number for number, _ in found)
    known = min(last, newest)
    if len(later) == known - compacted and later == list(range(compacted + 1, known + 1)):
        return
    beyond = min((number for number, compact in found if compact and number > last), default=None)
    reason = "it has gaps" if beyond is None else f"it was compacted at batch {beyond}"
    raise InvalidInput(
        f"the sink log of {directory} does not tell the batches up to {last} from later ones: {reason}",
        hint="the version was written on after that batch; rebuild the output, or read the directory as a whole",
    )


def _batches(directory: Path) -> set[tuple[int, bool]]:
    """Number, and whether compacted, of each file of the log; drafts and checksums are none."""
    log = directory / SINK_LOG
    names = os.listdir(log) if log.is_dir() else []
    plain = {(name.removesuffix(".compact"), name.endswith(".compact")) for name in names}
    return {(int(number), compact) for number, compact in plain if number.isdecimal()}


def _read(file: Path) -> Iterator[tuple[Path, str]]:
    lines = file.read_text().splitlines()
    if not lines or lines[0] != _HEADER:
        raise InvalidInput(f"{file} is not a sink log of a known version: {lines[:1]}")
    for line in lines[1:]:
        entry = json.loads(line)
        yield Path(unquote(urlsplit(entry["path"]).path)), entry["action"]
