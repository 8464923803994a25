"""``python -m bench.local_files``: measure what a micro-batch costs on a local disk with Hadoop's local file system and
with ours.

One session runs a query that aggregates over two partitions of state. Each of ``--rounds`` rounds runs ``--batches``
batches with each of the two file systems in turn; one round before them is not counted. Reported per batch: processes
started (counted by wrappers in the JVM's PATH, which cost some time themselves), wall-clock milliseconds, and CPU time
of the JVM and the processes that it has started.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from bench.report import write_report
from streamkeeper.driver.session import session_conf, start_session
from streamkeeper.jvm.local_files import HADOOPS, KEY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAMS = ("chmod", "readlink")


def main() -> int:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(prog="bench.local_files", description="A micro-batch's local files.")
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="local-files-"))
    with _counted(scratch) as log:
        session = start_session(session_conf({}, scratch, "local_files"), {}, scratch, [])
        try:
            figures = _measure(session.spark, scratch, log, chosen.batches, chosen.rounds)
        finally:
            session.kill()
            shutil.rmtree(scratch, ignore_errors=True)
    print(json.dumps(figures, indent=1))
    print(f"written to {write_report('local-files', figures, into=chosen.out)}")
    return 0


@contextmanager
def _counted(scratch: Path) -> Iterator[Path]:
    """Provide a file that gets one line for each process that Hadoop's shell starts, from the start of the JVM on."""
    wrappers, log = scratch / "bin", scratch / "started"
    wrappers.mkdir()
    log.touch()
    before = os.environ["PATH"]
    for program in PROGRAMS:
        wrapper = wrappers / program
        wrapper.write_text(f'#!/bin/sh\necho {program} >>{log}\nexec {shutil.which(program)} "$@"\n')
        wrapper.chmod(0o755)
    os.environ["PATH"] = f"{wrappers}{os.pathsep}{before}"
    try:
        yield log
    finally:
        os.environ["PATH"] = before


def _measure(spark: SparkSession, scratch: Path, log: Path, batches: int, rounds: int) -> dict[str, Any]:
    context: Any = spark.sparkContext
    configuration = context._jsc.hadoopConfiguration()
    ways = {"ours": configuration.get(KEY), "hadoops": HADOOPS}
    seen: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for turn in range(rounds + 1):
        for way, kind in ways.items():
            configuration.set(KEY, kind)
            figures = _round(spark, scratch / f"{way}-{turn}", log, batches)
            if turn:
                seen[way].append(figures)
    by_way = {
        way: {name: round(statistics.median(figures[name] for figures in taken), 1) for name in taken[0]}
        for way, taken in seen.items()
    }
    ratios = {name: round(by_way["ours"][name] / by_way["hadoops"][name], 2) for name in ("ms", "cpu_ms")}
    return {"batches": batches, "rounds": rounds, "a_batch": by_way, "ratio": ratios, "every_round": seen}


def _round(spark: SparkSession, checkpoint: Path, log: Path, batches: int) -> dict[str, float]:
    """Return the figures per batch; the first batch does not count, because it creates the checkpoint's folders."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = rows.groupBy((rows["value"] % 3).alias("rest")).count()
    writer = counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
    stream = writer.start()
    first = _committed(stream, checkpoint, 0)
    began, cpu, started = time.perf_counter(), _cpu_s(spark), len(log.read_text().splitlines())
    last = _committed(stream, checkpoint, first + batches)
    took, cpu_took, count = (
        time.perf_counter() - began,
        _cpu_s(spark) - cpu,
        len(log.read_text().splitlines()) - started,
    )
    stream.stop()
    done = last - first
    return {"processes": count / done, "ms": 1000 * took / done, "cpu_ms": 1000 * cpu_took / done}


def _committed(stream: Any, checkpoint: Path, at_least: int) -> int:
    """Wait until at least this batch is committed and return the newest committed batch; reads the folder, which costs
    the JVM nothing.
    """
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        names = os.listdir(checkpoint / "commits") if (checkpoint / "commits").is_dir() else []
        newest = max((int(name) for name in names if name.isdecimal()), default=-1)
        if newest >= at_least:
            return newest
        if not stream.isActive:
            raise SystemExit(str(stream.exception()))
        time.sleep(0.01)
    raise SystemExit(f"no batch {at_least} within 300 s")


def _cpu_s(spark: SparkSession) -> float:
    """Return the CPU seconds of the JVM and of the child processes that it has waited for."""
    context: Any = spark.sparkContext
    return float(sum(psutil.Process(context._gateway.proc.pid).cpu_times()[:4]))


if __name__ == "__main__":
    raise SystemExit(main())
