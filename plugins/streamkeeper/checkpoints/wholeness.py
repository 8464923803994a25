"""Whether a file is the whole file that was written, as far as its own bytes and the checksums beside it tell.

Hadoop keeps ``.name.crc`` beside a local file (``crc\\0``, the chunk size, one CRC-32 per chunk); Spark keeps
``name.crc`` beside a state file (JSON with its size). State is compressed with LZ4 unless a conf says otherwise:
blocks of ``LZ4Block``, the kind, two lengths and a checksum, the last of them empty (``LZ4BlockOutputStream``).
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from pathlib import Path

_HADOOP = b"crc\0"
_LZ4 = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<8sBiii")


def differs_from_checksum(path: Path) -> bool:
    """Whether Hadoop would refuse to read the file; False where no checksums are kept."""
    try:
        kept = path.with_name(f".{path.name}.crc").read_bytes()
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    if not kept.startswith(_HADOOP) or len(kept) < 8:
        return False
    size = int.from_bytes(kept[4:8], "big")
    sums = b"".join(zlib.crc32(content[at : at + size]).to_bytes(4, "big") for at in range(0, len(content), size))
    return sums != kept[8:]


def is_cut_short(path: Path) -> bool:
    """Whether a state file ends before its end."""
    size = _written_size(path)
    if size is not None and size != path.stat().st_size:
        return True
    match path.suffix:
        case ".zip":
            return not _is_whole_archive(path)
        case ".delta" | ".snapshot" | ".changelog":
            return not _is_whole_lz4(path.read_bytes())
        case _:
            return False


def archived_sizes(archive: Path) -> dict[str, int]:
    """SST -> bytes, as a RocksDB snapshot tells; only of those whose size it tells."""
    with zipfile.ZipFile(archive) as opened:
        found = json.loads(opened.read("metadata").decode().partition("\n")[2])
    files = found.get("sstFiles") or ()
    return {str(each["dfsSstFileName"]): int(each["sizeBytes"]) for each in files if "sizeBytes" in each}


def _written_size(path: Path) -> int | None:
    try:
        return int(json.loads(path.with_name(f"{path.name}.crc").read_bytes())["mainFileSize"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _is_whole_archive(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as opened:
            return opened.testzip() is None
    except (zipfile.BadZipFile, zlib.error, EOFError):
        return False


def _is_whole_lz4(content: bytes) -> bool:
    """Whether the blocks end with the empty one; True for what is no such stream."""
    if content[: len(_LZ4)] != _LZ4[: len(content)]:
        return True
    at = 0
    while at + _LZ4_HEADER.size <= len(content):
        magic, _, compressed, plain, _ = _LZ4_HEADER.unpack_from(content, at)
        if magic != _LZ4 or compressed < 0:
            return False
        at += _LZ4_HEADER.size + compressed
        if compressed == plain == 0:
            return bool(at == len(content))
    return False
