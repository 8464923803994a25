"""Writes checkpoints of any size with the layout of Spark 4.2.0 and the HDFS-backed state store.

Half of every state file is random bytes and half is hexadecimal digits of random bytes, so that it compresses to three
quarters and no two files share content. Each file has its checksum file beside it, as Hadoop's local file system writes
them.
"""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections import deque
from pathlib import Path

QUERY_ID = "5b1f0e7c-3f9e-4c55-9d8e-0f6f4f2a7b11"
DELTA_BYTES = 50_000
SNAPSHOT_BYTES = 600_000
_SNAPSHOT_EVERY = 10
_COMPACT_EVERY = 10
_CHECKED = 512


class GeneratedCheckpoint:
    """The ``kept`` newest batches of a query with one file source and one aggregation over ``partitions``
    partitions.
    """

    def __init__(self, root: Path, *, partitions: int, kept: int, first: int = 5) -> None:
        """Write the checkpoint; ``first`` is the number of the first batch in it."""
        self.root = root
        self._partitions = partitions
        self._kept = kept
        self._written: dict[int, list[Path]] = {}
        self._listed: deque[str] = deque(maxlen=kept)
        for folder in ("offsets", "commits", "sources/0", "state/0/_metadata"):
            (root / folder).mkdir(parents=True)
        operator = {
            "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
            "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": partitions}],
        }
        self._write("metadata", json.dumps({"id": QUERY_ID}).encode())
        self._write("state/0/_metadata/metadata", f"v1\n{json.dumps(operator)}".encode())
        for partition in range(partitions):
            (root / f"state/0/{partition}/_metadata").mkdir(parents=True)
            self._write(f"state/0/{partition}/_metadata/schema", b"\0\2v2\0\0\0\1")
        self._next = first
        for _ in range(kept):
            self._commit()

    @property
    def newest(self) -> int:
        """The newest committed batch."""
        return self._next - 1

    def advance(self, batches: int) -> None:
        """Commit this many more batches, and delete as many of the oldest."""
        for _ in range(batches):
            self._commit()
            for path in self._written.pop(min(self._written)):
                path.unlink()

    def _commit(self) -> None:
        batch, version = self._next, self._next + 1
        self._next += 1
        paths = self._written[batch] = []
        self._listed.append(json.dumps({"path": f"file:///in/part-{batch:09d}.json", "timestamp": 1, "batchId": batch}))
        compact = batch % _COMPACT_EVERY == _COMPACT_EVERY - 1
        log = f"sources/0/{batch}.compact" if compact else f"sources/0/{batch}"
        paths += self._write(log, "\n".join(["v1", *(self._listed if compact else [self._listed[-1]])]).encode())
        conf = {"spark.sql.shuffle.partitions": str(self._partitions)}
        plan = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": conf})
        paths += self._write(f"offsets/{batch}", f'v1\n{plan}\n{{"logOffset":{batch}}}'.encode())
        for partition in range(self._partitions):
            store = f"state/0/{partition}"
            paths += self._write(f"{store}/{version}.delta", _content(DELTA_BYTES, partition, version, "delta"))
            if version % _SNAPSHOT_EVERY == 0:
                snapshot = _content(SNAPSHOT_BYTES, partition, version, "snapshot")
                paths += self._write(f"{store}/{version}.snapshot", snapshot)
        paths += self._write(f"commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')

    def _write(self, name: str, content: bytes) -> list[Path]:
        path = self.root / name
        sums = path.with_name(f".{path.name}.crc")
        path.write_bytes(content)
        sums.write_bytes(_checksums(content))
        return [path, sums]


def _content(size: int, *identity: object) -> bytes:
    """Return between half and one and a half of ``size`` bytes, always the same for the same identity."""
    draw = random.Random(repr(identity))
    size = int(size * draw.uniform(0.5, 1.5))
    return draw.randbytes(size // 2) + draw.randbytes(size // 4).hex().encode()


def _checksums(content: bytes) -> bytes:
    sums = (zlib.crc32(content[start : start + _CHECKED]) for start in range(0, len(content), _CHECKED))
    return b"crc\0" + struct.pack(">i", _CHECKED) + b"".join(struct.pack(">I", each) for each in sums)
