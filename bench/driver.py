"""``python -m bench.driver``: measure what Streamkeeper itself costs a driver, part by part, from the driver's own
spans.

Runs ``sales_totals`` over at least ``--batches`` batches, then over as many while ``--busy`` processes compute and one
process syncs files on the same disk, then leaves it without input for ``--idle-s`` seconds. Prints the driver's own
work per batch by its parts (median and 95th percentile), and its store requests per batch and per idle second.

Only ``gate`` delays a batch: ``progress`` and ``status`` are done by other threads after the batch is committed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.report import write_report
from harness.bed import Bed, fresh_bed
from harness.places import ROOT
from harness.waiting import wait_for
from streamkeeper.model.protocol.driver_messages import DriverStatus
from streamkeeper.registry.driver_control import Control

JOB = "sales_totals"
OWN = ("gate", "progress", "status")
PARTS = {
    "gate": ("gate.checkpoint", "gate.store"),
    "progress": ("progress.event",),
    "status": ("status.compose", "status.history"),
}
REST = {"gate": "gate.rest", "progress": "progress.decode", "status": "status.write"}
"""Maps a span to the name of what remains of it without its measured parts."""
POLL_S = 0.02
_COMPUTE = "while True: pass"
_SYNC = """
import os, sys
while True:
    with open(sys.argv[1], "wb") as file:
        file.write(os.urandom(4096))
        file.flush()
        os.fsync(file.fileno())
"""


def main() -> int:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(prog="bench.driver", description="The driver's own work per batch.")
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 1, help="processes that compute meanwhile")
    parser.add_argument("--idle-s", type=float, default=120.0)
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    with fresh_bed(ROOT / "build/bench/driver-site", [ROOT / "jobs/sales_totals.py"]) as bed:
        figures = _measure(bed, chosen.batches, chosen.busy, chosen.idle_s)
    file = write_report("driver", figures, into=chosen.out)
    print(json.dumps(figures, indent=1))
    print(f"written to {file}")
    return 0


def _measure(bed: Bed, batches: int, busy: int, idle_s: float) -> dict[str, Any]:
    params = {
        "input": str(bed.input / "sales"),
        "warehouse": f"sqlite:///{bed.root}/warehouse.db",
        "trigger": "200 milliseconds",
    }
    bed.start_producer(rows=5, every_s=0.15)
    run = bed.command("deploy", JOB, "--params", json.dumps(params), "--reason", "bench")
    if run.returncode:
        raise SystemExit(run.stderr)
    control = Control(bed.installation.store, JOB, bed.installation.journal(JOB, "bench").state().serving_instance)
    # What a start costs once (it records where the checkpoint version began) is no batch's own.
    started = _status(control)
    wait_for("a start that is over", lambda: _count(_status(control), started) >= 3, timeout_s=120, poll_s=0.2)
    alone = _over(control, batches)
    with _load(bed.root / "load", busy):
        loaded = _over(control, batches)
    bed.stop_producer()
    # The last files are read and their batches told before the idle count begins.
    wait_for("an idle driver", lambda: _settled(control), timeout_s=120, poll_s=0.1)
    quiet = _status(control)
    time.sleep(idle_s)
    late = _status(control)
    return {
        **alone,
        "busy_processes": busy,
        "busy": loaded,
        "idle_s": idle_s,
        "store_requests_per_idle_s": round((late.store_requests - quiet.store_requests) / idle_s, 3),
    }


def _over(control: Control, batches: int) -> dict[str, Any]:
    """Return the figures of at least this many batches."""
    load_before, first, began = os.getloadavg()[0], _status(control), time.monotonic()
    ended = threading.Event()
    samples: list[dict[str, float]] = []
    sampler = threading.Thread(target=_sample, args=(control, samples, ended), daemon=True)
    sampler.start()
    try:
        wait_for(f"{batches} batches", lambda: _count(_status(control), first) >= batches, timeout_s=1800, poll_s=1.0)
        last, busy_s = _status(control), time.monotonic() - began
    finally:
        ended.set()
        sampler.join()
    count = _count(last, first)
    spent = _between(first.spans_ms, last.spans_ms)
    return {
        "batches": count,
        "batch_wall_ms": round(busy_s * 1000 / count, 1),
        "load_average": [round(load_before, 1), round(os.getloadavg()[0], 1)],
        "own_work_per_batch_ms": round(sum(spent[name] for name in OWN) / count, 3),
        "own_cpu_per_batch_ms": round(sum(spent[f"{name}.cpu"] for name in OWN) / count, 3),
        **{f"{name}_per_batch_ms": round(spent[name] / count, 3) for name in OWN},
        "store_requests_per_batch": round((last.store_requests - first.store_requests) / count, 3),
        "batches_sampled": len(samples),
        "parts_ms": {name: _spread([each[name] for each in samples]) for name in samples[0]} if samples else {},
    }


def _sample(control: Control, samples: list[dict[str, float]], ended: threading.Event) -> None:
    """Append one sample for each batch whose status was seen; a batch after a missed status is skipped, because its
    sample would cover two batches.
    """
    before = _status(control)
    while not ended.wait(POLL_S):
        now = _status(control)
        if now.beat == before.beat:
            continue
        if now.beat == before.beat + 1 and _count(now, before) == 1:
            samples.append(_split(_between(before.spans_ms, now.spans_ms)))
        before = now


def _split(spent: Mapping[str, float]) -> dict[str, float]:
    """Return each span, its measured parts, the remainder and the CPU time of its thread."""
    found: dict[str, float] = {}
    for name in OWN:
        parts = {part: spent.get(part, 0.0) for part in PARTS[name]}
        found |= {name: spent[name], **parts, REST[name]: max(0.0, spent[name] - sum(parts.values()))}
        found[f"{name}.cpu"] = spent[f"{name}.cpu"]
    return {"own": sum(spent[name] for name in OWN), "own.cpu": sum(spent[f"{name}.cpu"] for name in OWN), **found}


def _between(first: Mapping[str, float], last: Mapping[str, float]) -> dict[str, float]:
    return {name: value - first.get(name, 0.0) for name, value in last.items()}


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median": round(statistics.median(ordered), 3),
        "p95": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))], 3),
    }


@contextmanager
def _load(folder: Path, processes: int) -> Iterator[None]:
    """Run processes that compute all the time and one that repeatedly syncs a small file, until the context ends."""
    folder.mkdir(parents=True, exist_ok=True)
    commands = [["-c", _COMPUTE]] * processes + ([["-c", _SYNC, str(folder / "synced")]] if processes else [])
    running = [subprocess.Popen([sys.executable, *each]) for each in commands]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def _count(now: DriverStatus, first: DriverStatus) -> float:
    return now.spans_ms.get("batches", 0.0) - first.spans_ms.get("batches", 0.0)


def _settled(control: Control) -> bool:
    before = _status(control).beat
    time.sleep(3)
    return _status(control).beat == before


def _status(control: Control) -> DriverStatus:
    status = control.read_status()
    if status is None:
        raise SystemExit("the driver has no status")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
