"""Whether a file is the whole file that was written, as far as its own bytes and the checksums beside it tell.

Hadoop keeps ``.name.crc`` beside a local file (``crc\\0``, the chunk size, one CRC-32 per chunk); Spark keeps
``name.crc`` beside a state file (JSON with its size). State is compressed with LZ4 unless a conf says otherwise:
blocks of ``LZ4Block``, the kind, two lengths and a checksum, the last of them empty (``LZ4BlockOutputStream``).
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from streamkeeper.checkpoints.parsing import parse_json

_HADOOP = b"crc\0"
_LZ4 = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<8sBiii")
_PIECE = 1 << 20
_MOST_METADATA = 8 << 20
"""Some 100 bytes for each SST: eighty thousand of them."""


def differs_from_checksum(path: Path) -> bool:
    """Whether Hadoop would refuse to read the file; False where no checksums are kept."""
    try:
        kept = path.with_name(f".{path.name}.crc").read_bytes()
        size = int.from_bytes(kept[4:8], "big")
        if not kept.startswith(_HADOOP) or len(kept) < 8 or size == 0:
            return False
        with path.open("rb") as content:
            return b"".join(_sums(content, size)) != kept[8:]
    except FileNotFoundError:
        return False


def _sums(content: IO[bytes], size: int) -> Iterator[bytes]:
    """CRC-32 of every ``size`` bytes, read in pieces: the size is what a file says."""
    left, found = size, 0
    while piece := content.read(min(left, _PIECE)):
        left, found = left - len(piece), zlib.crc32(piece, found)
        if left == 0:
            yield found.to_bytes(4, "big")
            left, found = size, 0
    if left < size:
        yield found.to_bytes(4, "big")


def is_cut_short(path: Path) -> bool:
    """Whether a state file ends before its end."""
    size = _written_size(path)
    if size is not None and size != path.stat().st_size:
        return True
    match path.suffix:
        case ".zip":
            return not _is_whole_archive(path)
        case ".delta" | ".snapshot" | ".changelog":
            return not _is_whole_lz4(path)
        case _:
            return False


def archived_sizes(archive: Path) -> dict[str, int]:
    """SST -> bytes, as a RocksDB snapshot tells; only of those whose size it tells."""
    with zipfile.ZipFile(archive) as opened:
        found = archived_metadata(opened)
    files = found.get("sstFiles") or ()
    return {str(each["dfsSstFileName"]): int(each["sizeBytes"]) for each in files if "sizeBytes" in each}


def archived_metadata(opened: zipfile.ZipFile) -> Any:
    """What a RocksDB snapshot consists of; raises ValueError for more than such a list can be, or for no JSON."""
    with opened.open("metadata") as member:
        text = member.read(_MOST_METADATA + 1)
    if len(text) > _MOST_METADATA:
        raise ValueError(f"its metadata is more than {_MOST_METADATA:,} bytes")
    return parse_json(text.decode().partition("\n")[2])


def _written_size(path: Path) -> int | None:
    try:
        return int(parse_json(path.with_name(f"{path.name}.crc").read_bytes())["mainFileSize"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _is_whole_archive(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as opened:
            return opened.testzip() is None
    # The last: an unknown method of compression, and an encrypted member.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        return False


def _is_whole_lz4(path: Path) -> bool:
    """Whether the blocks end with the empty one; True for what is no such stream. Reads the blocks' headers only."""
    end = path.stat().st_size
    with path.open("rb") as content:
        begin = content.read(len(_LZ4))
        if begin != _LZ4[: len(begin)]:
            return True
        at = 0
        while at + _LZ4_HEADER.size <= end:
            content.seek(at)
            magic, _, compressed, plain, _ = _LZ4_HEADER.unpack(content.read(_LZ4_HEADER.size))
            if magic != _LZ4 or compressed < 0:
                return False
            at += _LZ4_HEADER.size + compressed
            if compressed == plain == 0:
                return bool(at == end)
    return False
