"""Spark's own sink log of a file output, ``<directory>/_spark_metadata``, which lists the files of each batch.

It has a file ``N`` for each batch; every tenth one is ``N.compact`` and contains the lines of all batches up to N,
without their batch numbers. Older files are deleted after a hundred batches and ten minutes.
"""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from streamkeeper.checkpoints.gaps import find_gaps
from streamkeeper.checkpoints.log_codec import LogNames, Trouble, log_names, sink_entry_content, sink_entry_from
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import InvalidInput
from streamkeeper.sinks.file_locations import create_once, folder_at

SINK_LOG = "_spark_metadata"
_INTERVAL = 10
"""Spark's default interval of compaction. If a log has another interval, Spark follows the files of the log."""


def newest_batch(directory: str) -> int | None:
    """Return the newest batch up to which Spark's sink log of a directory is complete, including compacted entries.

    Later batches follow a gap if a batch was listed after an older copy of the directory was put back. Spark cannot
    read such a log, so they do not count.
    """
    entries = _entries(_log_of(directory))
    missing = _first_missing(entries, entries.newest)
    newest = missing - 1 if missing is not None else entries.newest
    return newest if newest >= 0 else None


def listed_files(directory: str, *, last: int | None = None) -> list[str]:
    """Return the locations of the files that the sink log lists, in the form that Spark accepts; a local file's is its
    path. If ``last`` is given, return only the files of the batches up to ``last``.

    A file that the log does not list belongs to no batch. Raises InvalidInput if the log cannot separate the batches up
    to ``last`` from later ones.
    """
    log = _log_of(directory)
    entries = _entries(log)
    if last is not None and entries.numbers:
        _check_whole(directory, entries, last)
    files: dict[str, None] = {}
    for name in _names_to(entries, entries.newest if last is None else last):
        found = sink_entry_from(log.read(name))
        if isinstance(found, Trouble):
            raise InvalidInput(f"{log.where(name)} is not a sink log of a known version: it {found.value}")
        for entry in found:
            file = _location(entry.path)
            if entry.action == "add":
                files[file] = None
            else:
                files.pop(file, None)
    return list(files)


def _location(url: str) -> str:
    """Return the location of a file from its URL in a sink log. Hadoop's locations have no escapes."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    return path if parts.scheme in ("", "file") else f"{parts.scheme}://{parts.netloc}{path}"


def begin_log(directory: str, batch_id: int) -> None:
    """Start a log as if the batches up to ``batch_id`` had written no file; idempotent.

    Spark treats a log that starts neither with batch 0 nor with a compacted batch as damaged. Raises InvalidInput if
    one of the batches up to ``batch_id`` has a file.
    """
    newest = newest_batch(directory)
    if newest is not None and newest > batch_id:
        return
    log = _log_of(directory)
    compacted = (batch_id + 1) // _INTERVAL * _INTERVAL - 1
    names = [f"{compacted}.compact"] if compacted >= 0 else []
    # In this order, the newest batch exists only when all exist.
    for name in [*names, *map(str, range(compacted + 1, batch_id + 1))]:
        if not create_once(log, name, sink_entry_content()) and sink_entry_from(log.read(name)):
            raise InvalidInput(
                f"{log.where(name)} already contains a batch", hint=f"move {directory}, or write to another output"
            )


def continue_log(directory: str, batch_id: int) -> None:
    """Continue a log up to ``batch_id`` as if the missing batches had written no file; idempotent.

    Files that the log already lists stay listed. No batch may be left out, because Spark cannot read a log with a gap.
    """
    newest = newest_batch(directory)
    if newest is None:
        begin_log(directory, batch_id)
        return
    for number in range(newest + 1, batch_id + 1):
        compacts = (number + 1) % _INTERVAL == 0
        log = _log_of(directory)
        content = _compacted(log, number) if compacts else sink_entry_content()
        create_once(log, f"{number}.compact" if compacts else str(number), content)


def _compacted(log: Tree, end: int) -> bytes:
    """Return one entry with all lines of the batches before ``end``."""
    names = _names_to(_entries(log), end - 1)
    lines = [line for name in names for line in log.read(name).splitlines()[1:]]
    return b"\n".join([sink_entry_content(), *lines])


def _check_whole(directory: str, entries: LogNames, last: int) -> None:
    """Raise InvalidInput unless the entries to read have all batches up to ``last``.

    A missing batch is then contained only in a later compacted entry, or in none.
    """
    if _first_missing(entries, min(last, entries.newest)) is None:
        return
    beyond = next((number for number in entries.compacted if number > last), None)
    reason = "it has gaps" if beyond is None else f"it was compacted at batch {beyond}"
    raise InvalidInput(
        f"the sink log of {directory} cannot separate the batches up to {last} from later ones: {reason}",
        hint="rebuild the output, or read the whole directory, which may also contain rows of later batches",
    )


def _names_to(entries: LogNames, end: int) -> list[str]:
    """Return the names of the entries that contain the batches up to ``end``: the last compacted entry and each later
    entry.
    """
    compacted = entries.last_compacted(end)
    later = sorted(number for number in entries.plain if compacted < number <= end)
    return [*([f"{compacted}.compact"] if compacted >= 0 else []), *map(str, later)]


def _first_missing(entries: LogNames, end: int) -> int | None:
    """Return the first batch up to ``end`` that is neither compacted nor in an entry of its own; None if no batch is
    missing.
    """
    missing = find_gaps(entries.last_compacted(end) + 1, end + 1, entries.plain).first
    return missing[0] if missing else None


def _log_of(directory: str) -> Tree:
    return folder_at(directory, SINK_LOG)


def _entries(log: Tree) -> LogNames:
    return log_names(log.files(""))
