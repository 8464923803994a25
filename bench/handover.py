"""``python -m bench.handover``: the gap in the output when a release is replaced, against the plain way.

Two sides read the same input, each with its own checkpoint and table: ``warm`` is a Streamkeeper deploy, ``plain``
stops the driver with SIGTERM, waits for its end and submits the new one with spark-submit. In each of ``--pairs``
pairs one side is frozen while the other changes its release, in alternating order. The gap is the time from the last
commit of the old driver to the first commit of the new one, by the commit files' mtimes.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import psutil

from bench.report import write_report
from bench.sides import TRIGGER, PlainSide, Side, deploy, fill, gap_around, replace_alone
from harness.bed import Bed, fresh_bed
from harness.places import ROOT

JOB = "sales_totals"


class WarmSide:
    """Releases of ``sales_totals`` deployed by Streamkeeper; a param makes each a new one."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.commits = bed.home / "checkpoints" / JOB / "totals" / "v0001" / "commits"
        self._release = 0

    def replace(self) -> None:
        """Deploy the next release."""
        self._release += 1
        deploy(self.bed, JOB, _params(self.bed, "warm", self._release))

    def processes(self) -> list[psutil.Process]:
        """Its driver trees."""
        return list(self.bed.processes())

    def gap(self) -> float:
        """Around the end of the driver before the present one: its supervisor's last word."""
        job = self.bed.home / "store" / "control" / JOB
        ended = max(file.stat().st_mtime for file in job.glob("*/exit.json"))
        return gap_around(ended, self.commits)


def _params(bed: Bed, side: str, release: int) -> dict[str, Any]:
    return {
        "input": str(bed.input / "sales"),
        "warehouse": f"sqlite:///{bed.root}/{side}.db",
        "trigger": TRIGGER,
        "files_per_trigger": 100 + release,
    }


def main() -> int:
    """Measure at each number of keys, print, write the report; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="bench.handover", description="Warm handover against stop-and-submit.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--keys", default="10,1000000")
    parser.add_argument("--goal", type=float, default=0.125)
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    figures = {}
    for keys in (int(each) for each in chosen.keys.split(",")):
        with fresh_bed(ROOT / f"build/bench/handover-{keys}", [ROOT / "jobs/sales_totals.py"]) as bed:
            figures[str(keys)] = _measure(bed, keys, chosen.pairs)
        print(keys, json.dumps(figures[str(keys)]), flush=True)
    file = write_report("handover", {"goal": chosen.goal, "keys": figures}, into=chosen.out)
    print(f"written to {file}")
    return 0 if all(each["ratio"] <= chosen.goal for each in figures.values()) else 1


def _measure(bed: Bed, keys: int, pairs: int) -> dict[str, object]:
    fill(bed, keys)
    warm = WarmSide(bed)
    plain = PlainSide(bed, JOB, lambda release: _params(bed, "plain", release))
    gaps: dict[str, list[float]] = {"warm": [], "plain": []}
    try:
        for side in (warm, plain):
            side.replace()
        bed.start_producer(rows=10, every_s=0.2, customers=min(keys, 1000))
        for number in range(pairs):
            order: list[tuple[str, Side]] = [("warm", warm), ("plain", plain)]
            for name, side in order if number % 2 == 0 else reversed(order):
                other = plain if side is warm else warm
                gaps[name].append(replace_alone(side, other))
                print(f"  {keys} keys, pair {number + 1}: {name} {gaps[name][-1]:.2f} s", flush=True)
    finally:
        plain.close()
    medians = {name: statistics.median(each) for name, each in gaps.items()}
    return {**gaps, "median": medians, "ratio": round(medians["warm"] / medians["plain"], 4)}


if __name__ == "__main__":
    raise SystemExit(main())
