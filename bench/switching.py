"""``python -m bench.switching``: measure how long an output stands still while a release switches, as its reader sees
it.

``rebuild``: ``sales_totals`` gains or loses an aggregate, ``--switches`` times. A reader reads the table and its row in
``streamkeeper_outputs`` every 20 ms; the gap is the time from the last change that the old driver made to the first new
sale after it.

``handoff``: ``event_copy`` gains or loses its partitions, ``--pairs`` times, against a driver that is stopped and
submitted again. The gap is the time from the last commit of the old checkpoint version to the first batch of the new
one, by their mtimes. While one side changes its release, the other is frozen; the order alternates.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench.report import write_report
from bench.sides import TRIGGER, PlainSide, Side, commits, deploy, fill, replace_alone
from harness.bed import Bed, fresh_bed
from harness.places import ROOT
from streamkeeper.checkpoints.seeding import REBASED
from streamkeeper.checkpoints.trees import LocalTree, Tree

SQUARES = '        F.sum(F.col("amount") * F.col("amount")).alias("squares"),\n'
LARGEST = '        F.max("amount").alias("largest"),\n'
PLAIN, PARTITIONED = 'format="parquet")', 'format="parquet", partition_by=["kind"])'
LOOK_S = 0.02


class Sight(msgspec.Struct, frozen=True):
    """What a reader saw from ``at`` (seconds since the epoch) on: the serving version, its batch and the sum of all
    sales.
    """

    at: float
    version: str
    batch: int
    sales: int


class Reader:
    """A context manager that reads the serving table in a thread and records every change."""

    def __init__(self, warehouse: Path) -> None:
        self._warehouse = warehouse
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.sights: list[Sight] = []

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            sight = self._read()
            last = self.sights[-1] if self.sights else None
            if last is None or (sight.version, sight.batch, sight.sales) != (last.version, last.batch, last.sales):
                self.sights.append(sight)

    def _read(self) -> Sight:
        connection = sqlite3.connect(f"file:{self._warehouse}?mode=ro", uri=True, timeout=10, isolation_level=None)
        try:
            connection.execute("BEGIN")
            row = "SELECT version, batch_id FROM streamkeeper_outputs WHERE output = 'sales_totals'"
            version, batch = connection.execute(row).fetchone()
            (sales,) = connection.execute("SELECT sum(sales) FROM sales_totals").fetchone()
        finally:
            connection.close()
        return Sight(time.time(), version, int(batch), int(sales))


def main() -> int:
    """Measure, print and write the report; return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="bench.switching", description="The serving gap of switches.")
    parser.add_argument("--switches", type=int, default=7, help="rebuilds")
    parser.add_argument("--keys", type=int, default=1000, help="customers in the rebuilt table")
    parser.add_argument("--pairs", type=int, default=5, help="handoffs against stop-and-submit")
    parser.add_argument("--goal-s", type=float, default=1.0, help="of a rebuild")
    parser.add_argument("--goal-ratio", type=float, default=0.2, help="of a handoff")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results", help="folder of the report")
    chosen = parser.parse_args()
    figures: dict[str, Any] = {}
    if chosen.switches:
        with fresh_bed(ROOT / "build/bench/switching-rebuild", [ROOT / "jobs/sales_totals.py"]) as bed:
            figures["rebuild"] = {"goal_s": chosen.goal_s, **_measure_rebuilds(bed, chosen.keys, chosen.switches)}
    if chosen.pairs:
        with fresh_bed(ROOT / "build/bench/switching-handoff", [ROOT / "jobs/event_copy.py"]) as bed:
            figures["handoff"] = {"goal_ratio": chosen.goal_ratio, **_measure_handoffs(bed, chosen.pairs)}
    print(json.dumps(figures, indent=1))
    print(f"written to {write_report('switching', figures, into=chosen.out)}")
    rebuilt = figures.get("rebuild", {}).get("median_gap_s", 0.0) <= chosen.goal_s
    handed = figures.get("handoff", {}).get("ratio", 0.0) <= chosen.goal_ratio
    return 0 if rebuilt and handed else 1


def _measure_rebuilds(bed: Bed, keys: int, switches: int) -> dict[str, Any]:
    fill(bed, keys)
    warehouse = bed.root / "warehouse.db"
    params = {"input": str(bed.input / "sales"), "warehouse": f"sqlite:///{warehouse}", "trigger": TRIGGER}
    deploy(bed, "sales_totals", params)
    bed.start_producer(rows=10, every_s=0.2, customers=keys)
    samples = []
    for number in range(switches):
        load = os.getloadavg()[0]
        toggle(bed.jobs / "sales_totals.py", SQUARES, SQUARES + LARGEST)
        with Reader(warehouse) as reader:
            time.sleep(5.0)
            deploy(bed, "sales_totals", params)
        samples.append({**judge(reader.sights), "load_1m": round(load, 2)})
        print(f"  rebuild {number + 1}: {samples[-1]}", flush=True)
    return {
        "keys": keys,
        "samples": samples,
        **{f"median_{name}": statistics.median(each[name] for each in samples) for name in ("gap_s", "to_swap_s")},
        "longest_gap_s": max(each["gap_s"] for each in samples),
    }


def judge(sights: list[Sight]) -> dict[str, float]:
    """Return the gap and related times of one rebuild.

    ``gap_s``: from the last change under the old version to the first new sale under the next; ``to_swap_s``: to the
    moment at which the next version serves; ``between_changes_s``: the median time between two changes before the
    switch.
    """
    old = [sight for sight in sights if sight.version == sights[0].version]
    new = [sight for sight in sights if sight.version != sights[0].version]
    last = old[-1]
    first = next(sight for sight in new if sight.sales > last.sales)
    pauses = [after.at - before.at for before, after in pairwise(old)]
    return {
        "gap_s": round(first.at - last.at, 3),
        "to_swap_s": round(new[0].at - last.at, 3),
        "between_changes_s": round(statistics.median(pauses), 3),
    }


class SwitchedSide:
    """The side that Streamkeeper deploys: releases of ``event_copy``, each in a checkpoint version of its own."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self._versions = bed.home / "checkpoints" / "event_copy" / "copy"
        self._release = 0

    @property
    def commits(self) -> Tree:
        """The commits folder of the newest checkpoint version."""
        return LocalTree(max(self._versions.glob("v*")) / "commits" if self._release else self._versions)

    def replace(self) -> None:
        """Deploy the job file in its current state."""
        deploy(self.bed, "event_copy", _copy_params(self.bed, "switched"))
        self._release += 1

    def gap(self) -> float:
        """Return the seconds from the last commit of the previous version to the first batch of the newest one; seeded
        batches do not count.
        """
        before, now = sorted(self._versions.glob("v*"))[-2:]
        last = max(mtime for _, mtime in commits(LocalTree(before / "commits")))
        return min(mtime for batch, mtime in commits(LocalTree(now / "commits")) if batch > REBASED) - last

    def processes(self) -> list[psutil.Process]:
        """Return the processes of its drivers."""
        return list(self.bed.processes())


def _measure_handoffs(bed: Bed, pairs: int) -> dict[str, Any]:
    fill(bed, 1)
    switched = SwitchedSide(bed)
    plain = PlainSide(bed, "event_copy", lambda _release: _copy_params(bed, "plain"))
    gaps: dict[str, list[float]] = {"switched": [], "plain": []}
    loads: list[float] = []
    try:
        switched.replace()
        plain.replace()
        bed.start_producer(rows=10, every_s=0.2)
        for number in range(pairs):
            # Both sides get the same new release.
            toggle(bed.jobs / "event_copy.py", PLAIN, PARTITIONED)
            order: list[tuple[str, Side]] = [("switched", switched), ("plain", plain)]
            for name, side in order if number % 2 == 0 else reversed(order):
                loads.append(round(os.getloadavg()[0], 2))
                other = plain if side is switched else switched
                gaps[name].append(round(replace_alone(side, other), 3))
                print(f"  pair {number + 1}: {name} {gaps[name][-1]:.2f} s", flush=True)
    finally:
        plain.close()
    medians = {name: statistics.median(each) for name, each in gaps.items()}
    return {**gaps, "median": medians, "ratio": round(medians["switched"] / medians["plain"], 4), "load_1m": loads}


def _copy_params(bed: Bed, side: str) -> dict[str, Any]:
    return {"input": str(bed.input / "events"), "output": str(bed.root / side / "copies"), "trigger": TRIGGER}


def toggle(file: Path, one: str, other: str) -> None:
    """Replace ``one`` by ``other`` in the file, or ``other`` by ``one`` if the file contains it; raises ValueError when
    the text to replace does not occur exactly once.
    """
    text = file.read_text()
    old, new = (other, one) if other in text else (one, other)
    if text.count(old) != 1:
        raise ValueError(f"{file} does not hold {old!r} once")
    file.write_text(text.replace(old, new))


if __name__ == "__main__":
    raise SystemExit(main())
