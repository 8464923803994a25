"""Captures a live checkpoint repeatedly, and resumes every snapshot at its own commit."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psutil

from conformance.live.query import session, totals
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.model.records.snapshot import Snapshot, Stamp
from streamkeeper.snapshots.capture import capture
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import restore
from streamkeeper.stores.local import LocalStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[2]
SERIES = "live/totals"
_ROWS = 20
Totals = dict[str, tuple[int, int]]
"""Customer -> sum and count."""


class LiveCapture(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot: how many attempts it took, how many batches were committed during the capture, and the fault found
    on resuming it.
    """

    layout: str
    snapshot: str
    batch: int
    pending: bool
    attempts: int
    committed_meanwhile: int
    seconds: float
    fault: str = ""


class ThrottledTree(LocalTree):
    """A tree with slow reads, so that the query that owns the checkpoint makes progress in between."""

    def __init__(self, root: Path, chance: random.Random, longest_s: float) -> None:
        super().__init__(root)
        self._chance, self._longest_s = chance, longest_s

    def parts(self, path: str, size: int, expected: Stamp) -> Iterator[bytes]:
        time.sleep(self._chance.uniform(0, self._longest_s))
        return super().parts(path, size, expected)


def run_captures(
    root: Path, layout: str, captures: int, *, seed: int, longest_s: float = 0.12, show: Callable[[str], None] = print
) -> list[LiveCapture]:
    """Start the query and a producer, take the snapshots, stop both, then resume each snapshot separately."""
    chance = random.Random(seed)
    source, checkpoint = root / "in", root / "checkpoint"
    source.mkdir(parents=True)
    catalogue = Catalogue(LocalStore(root / "store"), SERIES)
    ended = threading.Event()
    producer = threading.Thread(target=_produce, args=(source, ended), daemon=True)
    producer.start()
    command = [sys.executable, "-m", "conformance.live.query", str(checkpoint), str(source), layout]
    owner = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for_batch(checkpoint, 8, owner)
        taken = list(_capture_all(checkpoint, catalogue, captures, chance, longest_s, layout))
    finally:
        _kill_tree(owner)
        ended.set()
        producer.join()
    spark = session(layout, root / "spark-local-resume", "resume", {})
    _start_coordinator(spark, root / "nothing")
    results = []
    try:
        for result, snapshot in taken:
            fault = _resume(spark, catalogue, snapshot, source, root / "resumed" / snapshot.name)
            results.append(msgspec.structs.replace(result, fault=fault))
            if fault:
                show(f"{layout} {snapshot.name} batch {snapshot.batch}: {fault}")
    finally:
        # The next layout needs a session of its own: this one's scratch directory goes with the checkpoint.
        spark.stop()
    return results


def _produce(source: Path, ended: threading.Event) -> None:
    for number in range(1_000_000):
        if ended.is_set():
            return
        lines = "".join(f"c{row % 7},{number + row}\n" for row in range(_ROWS))
        draft = source / f".{number:07d}"
        draft.write_text(lines)
        draft.rename(source / f"{number:07d}.csv")
        time.sleep(0.05)


def _wait_for_batch(checkpoint: Path, batch: int, owner: subprocess.Popen[bytes], timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not any((checkpoint / "commits" / str(batch + more)).exists() for more in range(20)):
        if time.monotonic() > deadline or owner.poll() is not None:
            raise TimeoutError(f"the query has not committed batch {batch}")
        time.sleep(0.1)


def _capture_all(
    checkpoint: Path, catalogue: Catalogue, captures: int, chance: random.Random, longest_s: float, layout: str
) -> Iterator[tuple[LiveCapture, Snapshot]]:
    while captures:
        before, began = _last(checkpoint), time.monotonic()
        found = capture(ThrottledTree(checkpoint, chance, longest_s), catalogue)
        if not found.taken:
            time.sleep(0.05)
            continue
        captures -= 1
        yield (
            LiveCapture(
                layout=layout,
                snapshot=found.snapshot.name,
                batch=found.snapshot.batch,
                pending=found.snapshot.pending,
                attempts=found.attempts,
                committed_meanwhile=_last(checkpoint) - before,
                seconds=round(time.monotonic() - began, 3),
            ),
            found.snapshot,
        )


def _start_coordinator(spark: SparkSession, checkpoint: Path) -> None:
    """Run a first query in the session: it starts a coordinator that Spark's state reader needs for checkpoint format
    v2 but does not start itself.
    """
    rates = spark.readStream.format("rate").load().writeStream.format("noop")
    rates.option("checkpointLocation", str(checkpoint)).trigger(once=True).start().awaitTermination()


def _resume(spark: SparkSession, catalogue: Catalogue, snapshot: Snapshot, source: Path, target: Path) -> str:
    """Restore the snapshot, compare the state with the files that were read up to it, run the next batch, and compare a
    second time; return the fault, if any.
    """
    try:
        restore(catalogue, snapshot, LocalTree(target))
        read = _files_read(target, snapshot.batch)
        if _state(spark, target, snapshot.batch) != _expected(read):
            return f"the state after batch {snapshot.batch} is not what its files add up to"
        batches: list[int] = []

        def divert(batch: DataFrame, number: int) -> None:
            # The batch has to run: with checkpoint format v2 its commit names the state files of this run.
            batch.write.format("noop").mode("overwrite").save()
            batches.append(number)

        writer = totals(spark, source).writeStream.outputMode("update").foreachBatch(divert)
        query = writer.option("checkpointLocation", str(target)).trigger(once=True).start()
        if not query.awaitTermination(120):
            query.stop()
            return "its next batch did not end within 120 s"
        if batches != [snapshot.batch + 1]:
            return f"batches {batches} ran, not {snapshot.batch + 1}"
        after = _files_read(target, snapshot.batch + 1)
        if not after > read or _state(spark, target, snapshot.batch + 1) != _expected(after):
            return f"the state after batch {snapshot.batch + 1} is not what its files add up to"
    except Exception as error:  # whatever Spark or a restore refuses is what is measured
        return " ".join(f"{type(error).__name__}: {error}".split())[:400]
    return ""


def _files_read(checkpoint: Path, batch: int) -> frozenset[str]:
    found = set()
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            if entry["batchId"] <= batch:
                found.add(entry["path"].removeprefix("file://"))
    return frozenset(found)


def _expected(files: frozenset[str]) -> Totals:
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for file in files:
        for line in Path(file).read_text().splitlines():
            customer, amount = line.split(",")
            sums[customer] += int(amount)
            counts[customer] += 1
    return {customer: (sums[customer], counts[customer]) for customer in counts}


def _state(spark: SparkSession, checkpoint: Path, batch: int) -> Totals:
    rows = spark.read.format("statestore").option("batchId", batch).load(str(checkpoint)).collect()
    return {row.key[0]: (row.value[0], row.value[1]) for row in rows}


def _last(checkpoint: Path) -> int:
    return max(int(each.name) for each in (checkpoint / "commits").glob("[0-9]*"))


def _kill_tree(owner: subprocess.Popen[bytes]) -> None:
    """Kill the owner with its children, since Python and its JVM are two processes."""
    tree = psutil.Process(owner.pid).children(recursive=True) if owner.poll() is None else []
    owner.kill()
    for each in tree:
        if each.is_running():
            each.kill()
    owner.wait()
