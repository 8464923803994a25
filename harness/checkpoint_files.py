"""Creates small checkpoint directories without Spark, with the file names and contents that Spark 4.2.0 uses."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from uuid import UUID

QUERY_ID = "f1d59810-eaab-48e1-8081-cfb9a2991009"
OPERATOR = {
    "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
    "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}],
}
CONF = {"spark.sql.shuffle.partitions": "2"}


def state_id(partition: int, version: int) -> str:
    """Return the id in the file names of one version of a partition."""
    return str(UUID(int=(partition + 1) << 64 | version))


class Tree:
    """A checkpoint with one file source and one stateful operator of two partitions; ``kind`` selects the layout of the
    state.

    The kind ``stateless`` has no state. With ``leftovers``, the checkpoint also contains the temporary files that
    crashes leave behind.
    """

    def __init__(
        self, root: Path, kind: str, *, batches: int, snapshots: tuple[int, ...] = (), leftovers: bool = True
    ) -> None:
        self.root = root
        self.kind = kind
        self.leftovers = leftovers
        self._write("metadata", json.dumps({"id": QUERY_ID}))
        if kind != "stateless":
            self._write("state/0/_metadata/metadata", "v1\n" + json.dumps(OPERATOR))
            for partition in (0, 1):
                self._write(f"state/0/{partition}/_metadata/schema", "\0\2v2\0\0\0\1")
        for batch in range(batches):
            self.plan(batch)
            self.commit(batch, snapshot=batch + 1 in snapshots)

    def plan(self, batch: int) -> None:
        """Write a batch's plan: its source log entry and its offsets."""
        entry = json.dumps({"path": f"file:///in/f{batch}.json", "timestamp": 1, "batchId": batch})
        if batch % 10 == 9:
            older = [json.dumps({"path": f"file:///in/f{b}.json", "timestamp": 1, "batchId": b}) for b in range(batch)]
            self._write(f"sources/0/{batch}.compact", "\n".join(["v1", *older, entry]))
        else:
            self._write(f"sources/0/{batch}", f"v1\n{entry}")
        plan = json.dumps({"batchWatermarkMs": 0, "conf": CONF})
        self._write(f"offsets/{batch}", f"v1\n{plan}\n" + json.dumps({"logOffset": batch}))

    def commit(self, batch: int, *, snapshot: bool = False) -> None:
        """Write a batch's state and its commit."""
        version = batch + 1
        for partition in (0, 1):
            self._state(partition, version, snapshot)
        if self.kind == "format-2":
            ids = {"0": [[state_id(partition, version)] for partition in (0, 1)]}
            self._write(f"commits/{batch}", "v2\n" + json.dumps({"nextBatchWatermarkMs": 0, "stateUniqueIds": ids}))
        else:
            self._write(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')

    @staticmethod
    def list_files(root: Path, entry: int) -> None:
        """Write the source log entry that precedes a plan, without the plan."""
        found = json.dumps({"path": f"file:///in/f{entry}.json", "timestamp": 1, "batchId": entry})
        (root / "sources" / "0" / str(entry)).write_text(f"v1\n{found}")

    def _state(self, partition: int, version: int, snapshot: bool) -> None:
        folder = f"state/0/{partition}"
        match self.kind:
            case "hdfs":
                self._write(f"{folder}/{version}.delta", "d")
                if snapshot:
                    self._write(f"{folder}/{version}.snapshot", "s")
            case "rocksdb":
                self.archive(f"{folder}/{version}.zip", version)
            case "changelog" | "format-2":
                name = str(version) if self.kind == "changelog" else f"{version}_{state_id(partition, version)}"
                self._write(f"{folder}/{name}.changelog", "c")
                if snapshot:
                    self.archive(f"{folder}/{name}.zip", version)

    def archive(self, name: str, version: int) -> None:
        """Write a RocksDB snapshot that has its own SST file and its own log file."""
        path = self.root / name
        sst, log = f"{version:06d}-a.sst", f"{version:06d}-a.log"
        metadata = {"sstFiles": [{"dfsSstFileName": sst, "sizeBytes": 3}], "logFiles": [{"dfsLogFileName": log}]}
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as opened:
            opened.writestr("metadata", "v1\n" + json.dumps(metadata))
        self._write(str(path.parent.relative_to(self.root) / "SSTs" / sst), "sst")
        self._write(str(path.parent.relative_to(self.root) / "logs" / log), "log")

    def _write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.with_name(f".{path.name}.crc").write_text("crc")
        if self.leftovers:
            path.with_name(f".{path.name}.{state_id(9, 9)}.tmp").write_text("half")


def salt_state(root: Path) -> None:
    """Replace the placeholder content of every state file by content that is unique to the file."""
    for path in root.glob("state/*/*/**/*"):
        if path.is_file() and path.suffix in (".delta", ".snapshot", ".changelog", ".sst") and path.stat().st_size < 4:
            path.write_bytes(str(path.relative_to(root)).encode() + os.urandom(300))
