"""What makes a flipped byte show: a record carries the hash of its own content in front of it."""

from __future__ import annotations

from typing import TypeVar

import blake3
import zstandard

from streamkeeper.errors import RegistryDamaged, SnapshotDamaged
from streamkeeper.model.coding import from_json, to_json

T = TypeVar("T")
_HEX = 64
_ENDS = b"\n"
_MOST = 1 << 30


def hash_of(data: bytes) -> str:
    """blake3, in hexadecimal."""
    return str(blake3.blake3(data).hexdigest())


def seal(value: object, *, packed: bool = False) -> bytes:
    """``<blake3>\\n<JSON>``; ``packed``: the JSON as a zstd frame."""
    content = to_json(value)
    if packed:
        content = zstandard.ZstdCompressor(level=3).compress(content)
    return hash_of(content).encode() + _ENDS + content


def unseal(data: bytes, kind: type[T], *, where: str, newest_format: int, packed: bool = False) -> T:
    """The value that was sealed; raises SnapshotDamaged or FormatTooNew, naming ``where``."""
    content = data[_HEX + 1 :]
    if data[_HEX : _HEX + 1] != _ENDS or hash_of(content).encode() != data[:_HEX]:
        raise SnapshotDamaged(f"{where} is not what was stored: its hash differs")
    try:
        if packed:
            content = zstandard.ZstdDecompressor().decompress(content, max_output_size=_MOST)
        return from_json(content, kind, where=where, newest_format=newest_format)
    except (RegistryDamaged, zstandard.ZstdError) as error:
        raise SnapshotDamaged(f"{where} cannot be read: {error}") from error
