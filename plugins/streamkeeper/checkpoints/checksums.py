"""Detects incomplete files by their own bytes and the checksums next to them.

Hadoop keeps ``.name.crc`` next to a local file (``crc\\0``, the chunk size, one CRC-32 per chunk); Spark keeps
``name.crc`` next to a state file (JSON with its size). State is compressed with LZ4 unless a conf changes that: blocks
of ``LZ4Block``, the kind, two lengths and a checksum, the last of them empty (``LZ4BlockOutputStream``).
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from streamkeeper.checkpoints.trees import Tree
from streamkeeper.model.coding import parse_json

BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError)
"""The errors that ``zipfile`` raises for a broken archive in memory, including unknown compression and impossible
offsets.
"""
_HADOOP = b"crc\0"
_LZ4 = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<8sBiii")
_PIECE = 1 << 20
_MOST_METADATA = 8 << 20
"""The greatest accepted size of a snapshot's metadata: enough for eighty thousand SSTs of about 100 bytes each."""


def differs_from_checksum(tree: Tree, path: str) -> bool:
    """Whether a file differs from its checksum, so that Hadoop would refuse to read it.

    False if the file or its checksum is missing, or if the checksum file is not one of Hadoop's.
    """
    folder, slash, name = path.rpartition("/")
    try:
        kept = tree.read(f"{folder}{slash}.{name}.crc")
        size = int.from_bytes(kept[4:8], "big")
        if not kept.startswith(_HADOOP) or len(kept) < 8 or size == 0:
            return False
        return b"".join(_sums(tree.parts(path, _PIECE, tree.stamp(path)), size)) != kept[8:]
    except FileNotFoundError:
        return False


def _sums(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield the CRC-32 of every ``size`` bytes; ``size`` comes from a file and may exceed any file's size."""
    left, found = size, 0
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            part, rest = rest[:left], rest[left:]
            left, found = left - len(part), zlib.crc32(part, found)
            if left == 0:
                yield found.to_bytes(4, "big")
                left, found = size, 0
    if left < size:
        yield found.to_bytes(4, "big")


def is_cut_short(tree: Tree, path: str) -> bool:
    """Whether a state file is truncated."""
    size = _written_size(tree, path)
    if size is not None and size != tree.stamp(path).size:
        return True
    match path.rpartition(".")[2]:
        case "zip":
            return not _is_whole_archive(tree.read(path))
        case "delta" | "snapshot" | "changelog":
            return not _is_whole_lz4(tree, path)
        case _:
            return False


def archived_sizes(archive: bytes) -> dict[str, int]:
    """Return the size in bytes of each SST, by SST, from the metadata in a RocksDB snapshot. An SST without a recorded
    size is left out.
    """
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        found = archived_metadata(opened)
    files = found.get("sstFiles") or ()
    return {str(file["dfsSstFileName"]): int(file["sizeBytes"]) for file in files if "sizeBytes" in file}


def archived_metadata(opened: zipfile.ZipFile) -> Any:
    """Return the metadata of a RocksDB snapshot; raises ValueError if it is impossibly large, or not JSON."""
    with opened.open("metadata") as member:
        text = member.read(_MOST_METADATA + 1)
    if len(text) > _MOST_METADATA:
        raise ValueError(f"its metadata has more than {_MOST_METADATA:,} bytes")
    return parse_json(text.decode().partition("\n")[2])


def _written_size(tree: Tree, path: str) -> int | None:
    try:
        return int(parse_json(tree.read(f"{path}.crc"))["mainFileSize"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _is_whole_archive(archive: bytes) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            return opened.testzip() is None
    except BROKEN_ARCHIVE:
        return False


def _is_whole_lz4(tree: Tree, path: str) -> bool:
    """Whether the last of the file's LZ4 blocks is the empty one; True if the file is not a stream of such blocks."""
    stamp = tree.stamp(path)
    start, pending, block = 0, b"", 0
    for piece in tree.parts(path, _PIECE, stamp):
        if start == 0 and not pending and piece[: len(_LZ4)] != _LZ4[: len(piece)]:
            return True
        pending += piece
        while block - start + _LZ4_HEADER.size <= len(pending):
            magic, _, compressed, plain, _ = _LZ4_HEADER.unpack_from(pending, block - start)
            if magic != _LZ4 or compressed < 0:
                return False
            block += _LZ4_HEADER.size + compressed
            if compressed == plain == 0:
                return bool(block == stamp.size)
        passed = min(block - start, len(pending))
        start, pending = start + passed, pending[passed:]
    return False
