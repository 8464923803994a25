"""One entry of a checkpoint's logs as a value: offsets, a commit, or what a file source has listed.

Formats of Spark 4.2.0 (``OffsetSeqLog``, ``CommitLog``, ``CompactibleFileStreamLog``): a line ``v<number>``, then
JSON. Offset log v1 names sources by their position, v2 by ``name:`` before the offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from streamkeeper.checkpoints.parsing import parse_json
from streamkeeper.errors import CheckpointDamaged

NO_OFFSET = "-"
_NEWEST = {"offsets": 2, "commits": 2, "sources": 1}
_VERSION = re.compile(r"v([1-9]\d*)")


class Trouble(Enum):
    """Why an entry cannot be read."""

    MISSING = "is missing"
    EMPTY = "is empty"
    UNKNOWN_VERSION = "does not begin with a log version"
    NEWER = "has a newer format than Spark 4.2 knows"
    CUT_SHORT = "is cut short"


class Offsets(msgspec.Struct, frozen=True, kw_only=True):
    """A planned batch: ``ends`` is source id -> text of its end offset, in the log's order."""

    version: int
    watermark_ms: int
    conf: dict[str, str]
    ends: dict[str, str]


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A committed batch: ``partitions`` is operator -> number of partitions, where the commit names state files."""

    version: int
    partitions: dict[str, int]


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What a file source listed: (entry, URL) of each file; a compacted log holds those of many entries."""

    files: tuple[tuple[int, str], ...]


def offsets_in(checkpoint: Path, batch: int) -> Offsets | Trouble:
    """The plan of a batch."""
    try:
        return offsets_from((checkpoint / "offsets" / str(batch)).read_bytes())
    except FileNotFoundError:
        return Trouble.MISSING


def offsets_from(content: bytes) -> Offsets | Trouble:
    """The plan that an entry of the offset log holds."""
    lines = _lines_of(content, "offsets")
    if isinstance(lines, Trouble):
        return lines
    version, *rest = lines
    metadata = _object((rest[0].strip() or "{}") if rest else "")
    ends = _ends(version, rest[1:])
    if metadata is None or not ends or any(_is_cut(each) for each in ends.values()):
        return Trouble.CUT_SHORT
    conf, watermark_ms = metadata.get("conf") or {}, metadata.get("batchWatermarkMs", 0)
    if not isinstance(conf, dict) or not isinstance(watermark_ms, int):
        return Trouble.CUT_SHORT
    told = {str(key): str(value) for key, value in conf.items()}
    return Offsets(version=int(version[1:]), watermark_ms=watermark_ms, conf=told, ends=ends)


def commit_in(checkpoint: Path, batch: int) -> Commit | Trouble:
    """The commit of a batch; one without its second line is whole, as Spark reads it."""
    lines = _lines(checkpoint / "commits" / str(batch), "commits")
    if isinstance(lines, Trouble):
        return lines
    metadata = _object(lines[1] if len(lines) > 1 else "{}")
    if metadata is None:
        return Trouble.CUT_SHORT
    ids = metadata.get("stateUniqueIds") or {}
    if not isinstance(ids, dict) or not all(isinstance(each, list) for each in ids.values()):
        return Trouble.CUT_SHORT
    return Commit(version=int(lines[0][1:]), partitions={str(each): len(found) for each, found in ids.items()})


def listing_in(path: Path) -> Listing | Trouble:
    """One file of a file source's log, compacted or not."""
    lines = _lines(path, "sources")
    if isinstance(lines, Trouble):
        return lines
    entry = int(path.name.removesuffix(".compact"))
    files = []
    for line in filter(None, lines[1:]):
        found = _object(line)
        number = entry if found is None else found.get("batchId", entry)
        if found is None or "path" not in found or not isinstance(number, int):
            return Trouble.CUT_SHORT
        files.append((number, str(found["path"])))
    return Listing(files=tuple(files))


def read_offsets(checkpoint: Path, batch: int) -> Offsets:
    """The plan of a batch; raises CheckpointDamaged."""
    found = offsets_in(checkpoint, batch)
    if isinstance(found, Trouble):
        raise CheckpointDamaged(f"{checkpoint / 'offsets' / str(batch)} {found.value}")
    return found


def read_commit(checkpoint: Path, batch: int) -> Commit:
    """The commit of a batch; raises CheckpointDamaged."""
    found = commit_in(checkpoint, batch)
    if isinstance(found, Trouble):
        raise CheckpointDamaged(f"{checkpoint / 'commits' / str(batch)} {found.value}")
    return found


def read_listing(path: Path) -> Listing:
    """One file of a file source's log; raises CheckpointDamaged."""
    found = listing_in(path)
    if isinstance(found, Trouble):
        raise CheckpointDamaged(f"{path} {found.value}")
    return found


def _lines(path: Path, log: str) -> list[str] | Trouble:
    try:
        return _lines_of(path.read_bytes(), log)
    except FileNotFoundError:
        return Trouble.MISSING


def _lines_of(content: bytes, log: str) -> list[str] | Trouble:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return Trouble.UNKNOWN_VERSION
    lines = text.split("\n")
    if not text:
        return Trouble.EMPTY
    version = _VERSION.fullmatch(lines[0].strip())
    if version is None:
        return Trouble.UNKNOWN_VERSION
    return Trouble.NEWER if int(version[1]) > _NEWEST[log] else [lines[0].strip(), *lines[1:]]


def _ends(version: str, lines: list[str]) -> dict[str, str]:
    return dict(_named(version, [line for line in lines if line]))


def _named(version: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        name, separator, end = line.partition(":") if version == "v2" else (str(number), ":", line)
        yield name, end if separator else "{"


def _is_cut(end: str) -> bool:
    """An offset that begins like JSON must be JSON; some sources write other text."""
    if not end.startswith(("{", "[")):
        return False
    try:
        parse_json(end)
    except ValueError:
        return True
    return False


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = parse_json(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
