"""What a file source's log lists up to an offset, line by line, through compacted entries."""

from __future__ import annotations

from pathlib import Path

import msgspec

from streamkeeper.checkpoints.entries import Trouble, listing_in
from streamkeeper.checkpoints.file_sources import FileSource, entry_of
from streamkeeper.checkpoints.gaps import find_gaps
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged

SEEN_BEFORE = 2**53 - 1
"""The entry of files that a checkpoint version counts as seen from its first batch on, and that none of its batches
reads: Spark takes a batch's files by this number. It must not be negative: measured, every start fails on -1
(``CompactibleFileStreamLog.getAllValidBatches``). No log gets there, and JSON's readers agree up to here."""


class LoggedFile(msgspec.Struct, frozen=True, rename="camel"):
    """One line: URL, modification time (UTC epoch milliseconds), and the entry that it was listed in."""

    path: str
    timestamp: int = 0
    batch_id: int = -1


_LINES = msgspec.json.Decoder(LoggedFile)


def holders(source: FileSource, end: int, *, where: str) -> tuple[Path, ...]:
    """The fewest files that hold every entry up to ``end``, in order: the last compacted one and those after it.

    Where Spark has removed some of them already, the compacted entry that took them in. Raises CheckpointDamaged.
    """
    compacted = sorted(number for number, path in source.entries.items() if path.suffix == ".compact")
    start = max((each for each in compacted if each <= end), default=-1)
    missing = find_gaps(start + 1, end + 1, source.entries).first
    if not missing:
        return tuple(source.entries[each] for each in range(max(start, 0), end + 1))
    later = next((each for each in compacted if each > end), None)
    if later is None:
        raise CheckpointDamaged(f"{where} lacks entry {missing[0]}")
    return (source.entries[later],)


def logged_files(source: FileSource, end: int, *, where: str) -> list[LoggedFile]:
    """Every file that the source has taken up to entry ``end``, in order, with those seen before its first.

    What is listed beyond ``end`` is not among them: no plan names it yet. Raises CheckpointDamaged, CheckpointChanged
    when an entry was removed while the log was being read.
    """
    found: list[LoggedFile] = []
    for path in holders(source, end, where=where):
        found += (each for each in _read(path) if each.batch_id <= end or each.batch_id == SEEN_BEFORE)
    return found


def _read(path: Path) -> list[LoggedFile]:
    try:
        _, _, body = path.read_bytes().partition(b"\n")
        found = _LINES.decode_lines(body)
    except FileNotFoundError as error:
        raise CheckpointChanged(f"{path} was removed while it was being read") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CheckpointDamaged(f"{path} {Trouble.CUT_SHORT.value}") from error
    if not found:
        trouble = listing_in(path)
        if trouble is Trouble.MISSING:
            raise CheckpointChanged(f"{path} was removed while it was being read")
        if isinstance(trouble, Trouble):
            raise CheckpointDamaged(f"{path} {trouble.value}")
    entry = entry_of(path.name)
    return [each if each.batch_id >= 0 else msgspec.structs.replace(each, batch_id=entry) for each in found]
