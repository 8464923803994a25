"""Provides a checkpoint that Spark wrote: a keyed count over RocksDB with changelogs, at two moments of one query.

Built once into ``build/bench-snapshots`` and kept; ``before`` is the directory after many batches, ``after`` the same
directory a few batches later.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

_STATE = "org.apache.spark.sql.execution.streaming.state."
_CONF = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.streaming.stateStore.providerClass": f"{_STATE}RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
    "spark.sql.streaming.minBatchesToRetain": "200",
}
_ROWS = 1000
_KEYS = 40_000


class RealCheckpoint:
    """A directory that is set to the state ``before`` and from there to ``after``, file by file, including modification
    times.
    """

    def __init__(self, root: Path, built: Path) -> None:
        self.root = root
        self._before, self._after = built / "before", built / "after"
        self.bring_back()

    def bring_back(self) -> None:
        """Set the directory back to ``before``."""
        _turn_into(self._before, self.root)

    def advance(self) -> None:
        """Set the directory to the state a few batches later; unchanged files are not touched."""
        _turn_into(self._after, self.root)


def built(folder: Path, *, batches: int = 400, more: int = 6) -> Path:
    """Return ``folder`` with the two states in it, written by Spark if they do not exist yet."""
    if not (folder / "after").is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        words = [sys.executable, "-m", "bench.snapshots.real", str(folder), str(batches), str(more)]
        subprocess.run(words, check=True, cwd=Path(__file__).resolve().parents[2])
    return folder


def _build(folder: Path, batches: int, more: int) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in _CONF.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    location = folder / "checkpoint"
    for name, count in (("before", batches), ("after", more)):
        rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", _ROWS).load()
        counts = rows.selectExpr(f"value * 7919 % {_KEYS} AS k", "repeat(md5(string(value)), 4) AS text").groupBy("k")
        query = (
            counts.agg({"*": "count", "text": "max"})
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(location))
            .start()
        )
        commits = location / "commits"
        wanted = _newest(commits) + count
        while _newest(commits) < wanted:
            if not query.isActive:
                raise SystemExit(f"the query ended: {query.exception()}")
            time.sleep(0.05)
        query.stop()
        # The maintenance of its state goes on in the background for a moment.
        time.sleep(5)
        draft = folder / f".{name}"
        shutil.copytree(location, draft)
        draft.rename(folder / name)
    session.stop()
    shutil.rmtree(location)


def _newest(commits: Path) -> int:
    return max((int(each.name) for each in commits.glob("[0-9]*")), default=-1) if commits.is_dir() else -1


def _turn_into(wanted: Path, root: Path) -> None:
    """Make ``root`` equal to ``wanted``: remove, add and replace files, and leave identical files untouched."""
    there = {path.relative_to(wanted) for path in wanted.rglob("*") if path.is_file()}
    for path in list(root.rglob("*")) if root.is_dir() else []:
        if path.is_file() and path.relative_to(root) not in there:
            path.unlink()
    for name in sorted(there):
        new, old = wanted / name, root / name
        found = new.stat()
        if old.exists() and (old.stat().st_size, old.stat().st_mtime_ns) == (found.st_size, found.st_mtime_ns):
            continue
        old.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(new, old.with_name("copying"))
        os.utime(old.with_name("copying"), ns=(found.st_atime_ns, found.st_mtime_ns))
        os.replace(old.with_name("copying"), old)


if __name__ == "__main__":
    _build(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
