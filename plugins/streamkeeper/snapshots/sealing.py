"""Detects corrupted records; each record starts with the hash of its own content."""

from __future__ import annotations

from typing import TypeVar

import blake3
import zstandard

from streamkeeper.errors import InvalidInput, RegistryDamaged, SnapshotDamaged
from streamkeeper.model.coding import from_json, to_json

T = TypeVar("T")
_HEX = 64
_ENDS = b"\n"
HINT = "run `streamkeeper snapshot list`, then restore from another snapshot"
_MOST = 256 << 20
"""The largest JSON of a record in bytes: enough for about a million files."""
_MOST_TIMES = 200
"""The highest ratio of a record's size to its frame's size: half of a record is hashes, which do not compress."""
_ALWAYS = 1 << 20


def hash_of(data: bytes) -> str:
    """Return the blake3 hash, in hexadecimal."""
    return str(blake3.blake3(data).hexdigest())


def seal(value: object, *, packed: bool = False) -> bytes:
    """Return a value as ``<blake3>\\n<JSON>``; ``packed``: compress the JSON to a zstd frame.

    Raises InvalidInput if a packed value would be too large to be read back.
    """
    content = to_json(value)
    if packed:
        size, content = len(content), zstandard.ZstdCompressor(level=3).compress(content)
        if size > _most_in(content):
            raise InvalidInput(
                f"the record of a snapshot would have {size:,} bytes, too many to read back",
                hint="start a new checkpoint version, because this checkpoint has too many files",
            )
    return hash_of(content).encode() + _ENDS + content


def unseal(data: bytes, kind: type[T], *, where: str, newest_format: int, packed: bool = False) -> T:
    """Return the value that was sealed; raises SnapshotDamaged or FormatTooNew.

    ``data``: the sealed bytes. ``kind``: the type to decode. ``where``: the record's name, for errors.
    ``newest_format``: the newest readable format. ``packed``: whether the JSON is a zstd frame.
    """
    most = _most_in(data)
    content = data[_HEX + 1 :]
    if data[_HEX : _HEX + 1] != _ENDS or hash_of(content).encode() != data[:_HEX]:
        raise SnapshotDamaged(f"{where} is not what was stored: its hash differs")
    try:
        if packed:
            content = unpacked(content, most, where=where)
        return from_json(content, kind, where=where, newest_format=newest_format, most=most)
    except RegistryDamaged as error:
        raise SnapshotDamaged(error.message, hint=error.hint) from error


def unpacked(frame: bytes, most: int, *, where: str) -> bytes:
    """Return the content of a zstd frame; raises SnapshotDamaged, before decompressing, if it has more than ``most``
    bytes.
    """
    try:
        size = zstandard.frame_content_size(frame)
        # Every frame that Streamkeeper writes states its size, and zstd enforces it.
        if size < 0 or size > most:
            size_text = f"{size:,} bytes" if size >= 0 else "unknown"
            raise SnapshotDamaged(
                f"{where} is not what was stored: its unpacked size is {size_text},"
                f" but at most {most:,} bytes are expected",
                hint=HINT,
            )
        return zstandard.ZstdDecompressor().decompress(frame)
    except zstandard.ZstdError as error:
        raise SnapshotDamaged(f"{where} cannot be unpacked: {error}") from error


def _most_in(frame: bytes) -> int:
    return min(_MOST, _ALWAYS + _MOST_TIMES * len(frame))
