"""``python -m bench.driver``: what Streamkeeper itself costs a driver, from the driver's own spans.

Serves ``sales_totals`` over at least ``--batches`` batches, then leaves it without input for ``--idle-s`` seconds.
Prints the driver's own work per batch (gate, progress, status) and its store requests per batch and per idle second.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from bench.bed import ROOT, Bed, fresh_bed, wait_for
from bench.report import write_report
from streamkeeper.model.control import DriverStatus
from streamkeeper.registry.control import Control

JOB = "sales_totals"


def main() -> int:
    """Measure, print, write the report."""
    parser = argparse.ArgumentParser(prog="bench.driver", description="The driver's own work per batch.")
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--idle-s", type=float, default=120.0)
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    with fresh_bed(ROOT / "build/bench/driver-site", [ROOT / "jobs/sales_totals.py"]) as bed:
        figures = _measure(bed, chosen.batches, chosen.idle_s)
    file = write_report("driver", figures, into=chosen.out)
    print(json.dumps(figures, indent=1))
    print(f"written to {file}")
    return 0


def _measure(bed: Bed, batches: int, idle_s: float) -> dict[str, float]:
    params = {
        "input": str(bed.input / "sales"),
        "warehouse": f"sqlite:///{bed.root}/warehouse.db",
        "trigger": "200 milliseconds",
    }
    bed.start_producer(rows=5, every_s=0.15)
    run = bed.command("deploy", JOB, "--params", json.dumps(params), "--reason", "bench")
    if run.returncode:
        raise SystemExit(run.stderr)
    # What a start costs once (it records where the checkpoint version began) is no batch's own.
    started = _status(bed)
    wait_for("a start that is over", lambda: _batches(_status(bed), started) >= 3, timeout_s=120, poll_s=0.2)
    first = _status(bed)
    began = time.monotonic()
    wait_for(f"{batches} batches", lambda: _batches(_status(bed), first) >= batches, timeout_s=1800, poll_s=1.0)
    last = _status(bed)
    busy_s = time.monotonic() - began
    bed.stop_producer()
    # The last files are read and their batches told before the idle count begins.
    wait_for("an idle driver", lambda: _settled(bed), timeout_s=120, poll_s=0.1)
    quiet = _status(bed)
    time.sleep(idle_s)
    late = _status(bed)
    count = _batches(last, first)
    own = {name: last.spans_ms[name] - first.spans_ms.get(name, 0.0) for name in ("gate", "status", "progress")}
    return {
        "batches": count,
        "batch_wall_ms": round(busy_s * 1000 / count, 1),
        "own_work_per_batch_ms": round(sum(own.values()) / count, 3),
        **{f"{name}_per_batch_ms": round(value / count, 3) for name, value in own.items()},
        "store_requests_per_batch": round((last.store_requests - first.store_requests) / count, 3),
        "idle_s": idle_s,
        "store_requests_per_idle_s": round((late.store_requests - quiet.store_requests) / idle_s, 3),
    }


def _batches(now: DriverStatus, first: DriverStatus) -> float:
    return now.spans_ms.get("batches", 0.0) - first.spans_ms.get("batches", 0.0)


def _settled(bed: Bed) -> bool:
    before = _status(bed).beat
    time.sleep(3)
    return _status(bed).beat == before


def _status(bed: Bed) -> DriverStatus:
    instance = bed.site.journal(JOB, "bench").state().serving_instance
    status = Control(bed.site.store, JOB, instance).read_status()
    if status is None:
        raise SystemExit(f"{instance} has no status")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
