"""Decodes the bytes of entries of Spark's logs, and encodes such entries, without I/O: offsets, commits, and files
listed by file sources and sinks.

Formats of Spark 4.2.0 (``OffsetSeqLog``, ``CommitLog``, ``FileStreamSourceLog``, ``FileStreamSinkLog``): a line
``v<number>``, then JSON. Offset log v1 identifies sources by position, v2 by ``name:`` before the offset. The form of
an offset itself depends on the kind of its source. Commit log v2 names state files, v3 also contains a sink's metadata.
File logs are compacted: ``19.compact`` contains every entry up to 19, and Spark eventually removes the single entries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, TypeVar

import msgspec

from streamkeeper.checkpoints.gaps import find_gaps
from streamkeeper.errors import CheckpointDamaged
from streamkeeper.model.coding import decoder_of, json_object, parse_json

SEEN_BEFORE = 2**53 - 1
"""The entry number of files that count as seen before the first batch of a checkpoint version. No batch of the version
reads them, because Spark selects a batch's files by this number. A negative number is impossible: as measured, every
start fails on -1 (``CompactibleFileStreamLog.getAllValidBatches``). No log reaches this number, and JSON readers
represent integers exactly up to it.
"""
STATELESS_COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'
"""The commit that Spark writes for a batch without state; it can be read in checkpoint format 2 too."""

_NAMED = 2
_NEWEST = {"offsets": 2, "commits": 3, "files": 1}
_VERSION = re.compile(r"v([1-9]\d*)")
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_ENTRY = re.compile(r"([0-9]+)(\.compact)?")

T = TypeVar("T")


class Trouble(Enum):
    """The reason why an entry cannot be read."""

    MISSING = "is missing"
    EMPTY = "is empty"
    UNKNOWN_VERSION = "does not begin with a log version"
    NEWER = "has a newer format than Spark 4.2 knows"
    CUT_SHORT = "is cut short"


class Offsets(msgspec.Struct, frozen=True, kw_only=True):
    """A planned batch."""

    version: int
    """The format of the offset log."""
    watermark_ms: int
    """The watermark in UTC epoch milliseconds; 0 before the query has a watermark."""
    conf: dict[str, str]
    """The settings that Spark pins to the checkpoint."""
    ends: dict[str, str]
    """The end offset of each source as text, by source id, in the log's order."""

    @property
    def named(self) -> bool:
        """Whether sources have names instead of positions.

        Spark 4.2.0 cannot start while a batch with named sources is open: as measured, every start raises
        ``NoSuchElementException: None.get`` in ``OfflineStateRepartitionUtils.isRepartitionBatch``.
        """
        return self.version == _NAMED


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A committed batch. ``state_ids``: the ids of each partition's state files, by operator and partition; empty if
    the commit does not name the files, as in checkpoint format 1.
    """

    version: int
    state_ids: dict[str, tuple[frozenset[str], ...]]

    @property
    def partitions(self) -> dict[str, int]:
        """The number of partitions of each operator, by operator."""
        return {operator: len(partitions) for operator, partitions in self.state_ids.items()}


class LoggedFile(msgspec.Struct, frozen=True, rename="camel"):
    """A line of a file source's log: URL, modification time (UTC epoch milliseconds), number of the entry that listed
    it.
    """

    path: str
    timestamp: int = 0
    batch_id: int = -1


class SinkFile(msgspec.Struct, frozen=True):
    """A line of a file sink's log: URL, and ``add`` or ``delete``."""

    path: str
    action: str


class LogNames(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a file log's entries, taken from the log's file names. ``plain``: entries with a plain file;
    ``compacted``: entries with a compacted file, in order.
    """

    plain: frozenset[int]
    compacted: tuple[int, ...]

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of all entries that have a plain file, a compacted file or both."""
        return self.plain.union(self.compacted)

    @property
    def newest(self) -> int:
        """The number of the newest entry; -1 if there is no entry."""
        return max(self.numbers, default=-1)

    def name_of(self, number: int) -> str:
        """Return the file name of an existing entry: the compacted file if the entry has both a plain and a compacted
        file.
        """
        return f"{number}.compact" if number in self.compacted else str(number)

    def last_compacted(self, end: int) -> int:
        """Return the number of the newest compacted entry up to ``end``; -1 if there is none."""
        return max((number for number in self.compacted if number <= end), default=-1)

    def holding(self, end: int, *, first: int = 0, where: str) -> tuple[str, ...]:
        """Return the names of files that together contain every entry from ``first`` to ``end``, in order.

        The result is the first of these sets of files that exists completely:

        - the plain file of each of these entries;
        - the last compacted file up to ``end``, and a plain file for each later entry up to ``end``;
        - the first compacted file after ``end``.

        Raises CheckpointDamaged if none of these sets exists completely.
        """
        if not find_gaps(first, end + 1, self.plain).count:
            return tuple(str(number) for number in range(first, end + 1))
        start = self.last_compacted(end)
        missing = find_gaps(start + 1, end + 1, self.plain).first
        if not missing:
            return (f"{start}.compact", *(str(number) for number in range(start + 1, end + 1)))
        later = next((number for number in self.compacted if number > end), None)
        if later is None:
            raise CheckpointDamaged(f"{where} lacks entry {missing[0]}")
        return (f"{later}.compact",)


_LOGGED = decoder_of(LoggedFile)
_SUNK = decoder_of(SinkFile)


def whole(found: T | Trouble, where: str) -> T:
    """Return ``found``, the content of an entry; raises CheckpointDamaged with ``where`` if it could not be read."""
    if isinstance(found, Trouble):
        raise CheckpointDamaged(f"{where} {found.value}")
    return found


def batch_number(name: str) -> int | None:
    """Return the batch number of an entry in ``offsets`` or ``commits``, given its file name; None for another file."""
    return int(name) if _NUMBER.fullmatch(name) else None


def entry_number(name: str) -> int | None:
    """Return the number of a file log's entry, given the name of its plain or compacted file; None for another file."""
    found = _ENTRY.fullmatch(name)
    return int(found[1]) if found else None


def log_names(names: Iterable[str]) -> LogNames:
    """Return the numbers of the log entries among a folder's files; drafts and checksums are ignored."""
    found = [matched for name in names if (matched := _ENTRY.fullmatch(name))]
    return LogNames(
        plain=frozenset(int(matched[1]) for matched in found if not matched[2]),
        compacted=tuple(sorted(int(matched[1]) for matched in found if matched[2])),
    )


def offsets_from(content: bytes) -> Offsets | Trouble:
    """Decode the plan in an entry of the offset log."""
    lines = _lines(content, "offsets")
    if isinstance(lines, Trouble):
        return lines
    version, rest = lines
    metadata = json_object((rest[0].strip() or "{}") if rest else "")
    ends = dict(_ends(version, [line for line in rest[1:] if line]))
    if metadata is None or not ends or any(_is_cut(end) for end in ends.values()):
        return Trouble.CUT_SHORT
    conf, watermark_ms = metadata.get("conf") or {}, metadata.get("batchWatermarkMs", 0)
    if not isinstance(conf, dict) or not isinstance(watermark_ms, int):
        return Trouble.CUT_SHORT
    settings = {str(key): str(value) for key, value in conf.items()}
    return Offsets(version=version, watermark_ms=watermark_ms, conf=settings, ends=ends)


def commit_from(content: bytes) -> Commit | Trouble:
    """Decode an entry of the commit log. Like Spark, accept an entry without its second line."""
    lines = _lines(content, "commits")
    if isinstance(lines, Trouble):
        return lines
    version, rest = lines
    metadata = json_object(rest[0] if rest else "{}")
    try:
        ids = (metadata or {}).get("stateUniqueIds") or {}
        state_ids = {
            str(operator): tuple(frozenset(map(str, partition)) for partition in partitions)
            for operator, partitions in ids.items()
        }
    except (AttributeError, TypeError):
        return Trouble.CUT_SHORT
    return Trouble.CUT_SHORT if metadata is None else Commit(version=version, state_ids=state_ids)


def source_entry_from(content: bytes, name: str) -> list[LoggedFile] | Trouble:
    """Decode the files that the entry ``name`` of a file source's log lists. A compacted entry lists the files of many
    entries.
    """
    found = _files_from(content, _LOGGED)
    if isinstance(found, Trouble):
        return found
    entry = entry_number(name)
    assert entry is not None
    return [file if file.batch_id >= 0 else msgspec.structs.replace(file, batch_id=entry) for file in found]


def sink_entry_from(content: bytes) -> list[SinkFile] | Trouble:
    """Decode the files that an entry of a file sink's log adds and deletes. The entry may be plain or compacted."""
    return _files_from(content, _SUNK)


def query_id_from(content: bytes) -> str | None:
    """Return the query's id in a checkpoint's ``metadata``, or None."""
    found = json_object(content)
    recorded = found.get("id") if found else None
    return recorded if isinstance(recorded, str) else None


def metadata_content(query_id: str) -> bytes:
    """Encode a checkpoint's ``metadata``."""
    return _dumped({"id": query_id}).encode()


def source_entry_content(files: Iterable[LoggedFile]) -> bytes:
    """Encode an entry of a file source's log that lists these files."""
    lines = [_dumped({"path": file.path, "timestamp": file.timestamp, "batchId": file.batch_id}) for file in files]
    return "\n".join(["v1", *lines]).encode()


def sink_entry_content() -> bytes:
    """Encode an entry of a file sink's log that lists no file."""
    return b"v1"


def split_version(text: str) -> tuple[int, str] | Trouble:
    """Return the number in a file's first line, ``v<number>``, and the text after that line."""
    head, _, body = text.partition("\n")
    version = _VERSION.fullmatch(head.strip())
    if version is None:
        return Trouble.UNKNOWN_VERSION if text else Trouble.EMPTY
    return int(version[1]), body


def _lines(content: bytes, log: str) -> tuple[int, list[str]] | Trouble:
    """Return an entry's version, and the lines after it."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return Trouble.UNKNOWN_VERSION
    found = split_version(text)
    if isinstance(found, Trouble):
        return found
    version, _ = found
    return Trouble.NEWER if version > _NEWEST[log] else (version, text.split("\n")[1:])


def _files_from(content: bytes, decoder: msgspec.json.Decoder[T]) -> list[T] | Trouble:
    """Decode all lines of an entry in one call, because a compacted entry may have a million lines."""
    head, _, body = content.partition(b"\n")
    lines = _lines(head, "files")
    if isinstance(lines, Trouble):
        return lines
    try:
        return decoder.decode_lines(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Trouble.CUT_SHORT


def _ends(version: int, lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        name, separator, end = line.partition(":") if version == _NAMED else (str(number), ":", line)
        yield name, end if separator else "{"


def _is_cut(end: str) -> bool:
    """Whether an offset is truncated. An offset that starts like JSON must be valid JSON; some sources write other
    text, which counts as complete.
    """
    if not end.startswith(("{", "[")):
        return False
    try:
        parse_json(end)
    except ValueError:
        return True
    return False


def _dumped(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
