"""``python -m bench.memory``: measure the memory that an unattended driver holds, minute by minute.

Runs ``sales_totals`` at triggers of one second under steady input, and inspects the driver's JVM and its two Python
processes at the ``--at`` minutes: bytes of live Java objects after full collections (jcmd's class histogram), the
classes that grew most, and resident memory. Needs a JDK's jcmd beside the JRE.

Full collections are repeated until the live size stays the same: Spark's cleaner releases, one by one, the accumulators
and broadcasts that a collection has found unused, so that a single collection would still count those of all batches
since the previous one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

from bench.report import write_report
from harness.bed import Bed, fresh_bed
from harness.places import ROOT
from streamkeeper.registry.driver_control import Control

JOB = "sales_totals"
_MIB = 1 << 20
_SHOWN = 8
_CLEANED_S, _ROUNDS, _SAME = 5, 24, 0.005
"""Seconds that the cleaner gets between two collections, the highest number of collections, and the share below which
two sizes count as the same.
"""


def main() -> int:
    """Measure, print each sample as it is taken, and write the report."""
    parser = argparse.ArgumentParser(prog="bench.memory", description="An unattended driver's memory.")
    parser.add_argument("--at", default="5,10,20,30", help="minutes after the start at which to look")
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    if shutil.which("jcmd") is None:
        raise SystemExit("error: there is no jcmd on the PATH; install a JDK (Debian: openjdk-17-jdk-headless)")
    with fresh_bed(ROOT / "build/bench/memory-site", [ROOT / "jobs/sales_totals.py"]) as bed:
        looks, grown = _watch(bed, [float(each) for each in chosen.at.split(",")])
    first, last = looks[0], looks[-1]
    minutes = last["minute"] - first["minute"]
    slope = round((last["live_mib"] - first["live_mib"]) / minutes, 3) if minutes else None
    figures = {"looks": looks, "live_mib_a_minute": slope, "grown_most": grown}
    print(json.dumps(figures, indent=1))
    print(f"written to {write_report('memory', figures, into=chosen.out)}")
    return 0


def _watch(bed: Bed, minutes: list[float]) -> tuple[list[dict[str, float]], list[str]]:
    """Take a sample at each of the minutes; return the samples and the classes that grew most from the first to the
    last.
    """
    params = {
        "input": str(bed.input / "sales"),
        "warehouse": f"sqlite:///{bed.root}/warehouse.db",
        "trigger": "1 second",
    }
    bed.start_producer(rows=5, every_s=0.5)
    run = bed.command("deploy", JOB, "--params", json.dumps(params), "--reason", "bench")
    if run.returncode:
        raise SystemExit(run.stderr)
    began = time.monotonic()
    looks: list[dict[str, float]] = []
    histograms: list[dict[str, int]] = []
    for minute in minutes:
        time.sleep(max(0.0, began + 60 * minute - time.monotonic()))
        look, histogram = _look(bed, minute)
        print(json.dumps(look), flush=True)
        looks.append(look)
        histograms.append(histogram)
    before, after = histograms[0], histograms[-1]
    grown = sorted(after, key=lambda name: before.get(name, 0) - after[name])[:_SHOWN]
    return looks, [f"{name} {(after[name] - before.get(name, 0)) / 1024:+.0f} KiB" for name in grown]


def _look(bed: Bed, minute: float) -> tuple[dict[str, float], dict[str, int]]:
    seen: list[tuple[float, int, str, int]] = []
    for each in bed.processes():
        # What the JVM forks for a moment is gone before it is looked at.
        with suppress(psutil.NoSuchProcess):
            seen.append((each.create_time(), each.pid, each.name(), each.memory_info().rss))
    _, jvm, _, jvm_size = min(each for each in seen if each[2] == "java")
    python = sum(size for *_, name, size in seen if name.startswith("python"))
    histogram = _live(jvm)
    instance = bed.installation.journal(JOB, "bench").state().serving_instance
    status = Control(bed.installation.store, JOB, instance).read_status()
    look = {
        "minute": minute,
        "batches": status.spans_ms.get("batches", 0.0) if status is not None else 0.0,
        "live_mib": round(sum(histogram.values()) / _MIB, 2),
        "jvm_resident_mib": round(jvm_size / _MIB, 1),
        "python_resident_mib": round(python / _MIB, 1),
    }
    return look, histogram


def _live(jvm: int) -> dict[str, int]:
    """Return the bytes of live objects by class, once repeated collections release nothing more."""
    before = _histogram(jvm)
    for _ in range(_ROUNDS):
        time.sleep(_CLEANED_S)
        found = _histogram(jvm)
        if sum(found.values()) > (1 - _SAME) * sum(before.values()):
            break
        before = found
    return found


def _histogram(jvm: int) -> dict[str, int]:
    """Return the class histogram after a full collection, which the jcmd command triggers itself."""
    told = subprocess.run(["jcmd", str(jvm), "GC.class_histogram"], capture_output=True, text=True, check=True)
    histogram: dict[str, int] = {}
    for line in told.stdout.splitlines():
        match line.split():
            case [number, _, size, name, *_] if number.endswith(":"):
                histogram[name] = histogram.get(name, 0) + int(size)
    return histogram


if __name__ == "__main__":
    raise SystemExit(main())
