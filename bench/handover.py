"""``python -m bench.handover``: the gap in the output when a release is replaced, against the plain way.

Two sides read the same input, each with its own checkpoint and table: ``warm`` is a Streamkeeper deploy, ``plain``
stops the driver with SIGTERM, waits for its end and submits the new one with spark-submit. In each of ``--pairs``
pairs one side is frozen while the other changes its release, in alternating order. The gap is the time from the last
commit of the old driver to the first commit of the new one, by the commit files' mtimes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark

from bench.bed import ROOT, Bed, fresh_bed, wait_for
from bench.report import write_report
from demo.producer import write_whole

JOB = "sales_totals"
TRIGGER = "500 milliseconds"


class WarmSide:
    """Releases of ``sales_totals`` deployed by Streamkeeper; a param makes each a new one."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.commits = bed.home / "checkpoints" / JOB / "totals" / "v0001" / "commits"
        self._release = 0

    @property
    def ended_at(self) -> float:
        """When the driver before this one was seen to be gone: its supervisor's last word."""
        job = self.bed.home / "store" / "control" / JOB
        return max(file.stat().st_mtime for file in job.glob("*/exit.json"))

    def replace(self) -> None:
        """Deploy the next release."""
        self._release += 1
        params = {
            "input": str(self.bed.input / "sales"),
            "warehouse": f"sqlite:///{self.bed.root}/warm.db",
            "trigger": TRIGGER,
            "files_per_trigger": 100 + self._release,
        }
        run = self.bed.command("deploy", JOB, "--params", json.dumps(params), "--reason", "bench")
        if run.returncode:
            raise SystemExit(run.stderr)

    def processes(self) -> list[psutil.Process]:
        """Its driver trees."""
        return list(self.bed.processes())


class PlainSide:
    """The same query under spark-submit."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.checkpoint = bed.root / "plain" / "checkpoint"
        self.commits = self.checkpoint / "commits"
        self._release = 0
        self._driver: subprocess.Popen[bytes] | None = None
        self.ended_at = 0.0

    def replace(self) -> None:
        """Stop the driver, wait for its end, submit the next."""
        self.stop()
        self._release += 1
        params = {
            "input": str(self.bed.input / "sales"),
            "warehouse": f"sqlite:///{self.bed.root}/plain.db",
            "trigger": TRIGGER,
            "files_per_trigger": 100 + self._release,
        }
        before = newest(self.commits)
        self.checkpoint.parent.mkdir(exist_ok=True)
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        job = str(self.bed.jobs / f"{JOB}.py")
        script = str(ROOT / "bench/plain_driver.py")
        pythons = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
        environment = {**self.bed.environment, **pythons}
        with (self.bed.root / "plain" / "log").open("ab") as log:
            self._driver = subprocess.Popen(
                [str(submit), "--master", "local[2]", script, job, str(self.checkpoint), json.dumps(params)],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for("the plain driver's first commit", lambda: newest(self.commits) > before, timeout_s=180)

    def stop(self) -> None:
        """SIGTERM to the Python driver, and wait until all of it has ended."""
        if self._driver is None:
            return
        for process in self.processes():
            if "python" in process.name():
                process.send_signal(signal.SIGTERM)
                break
        self._driver.wait(timeout=120)
        self.ended_at = time.time()
        self._driver = None

    def processes(self) -> list[psutil.Process]:
        """spark-submit's JVM and the Python it runs."""
        if self._driver is None:
            return []
        root = psutil.Process(self._driver.pid)
        return [*root.children(recursive=True), root]

    def close(self) -> None:
        """End it whatever it does."""
        if self._driver is not None:
            os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()


Side = WarmSide | PlainSide


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
    _fill(bed, keys)
    warm, plain = WarmSide(bed), PlainSide(bed)
    gaps: dict[str, list[float]] = {"warm": [], "plain": []}
    try:
        for side in (warm, plain):
            side.replace()
        bed.start_producer(rows=10, every_s=0.2, customers=min(keys, 1000))
        for number in range(pairs):
            order: list[tuple[str, Side]] = [("warm", warm), ("plain", plain)]
            for name, side in order if number % 2 == 0 else reversed(order):
                other = plain if side is warm else warm
                gaps[name].append(_gap(side, other))
                print(f"  {keys} keys, pair {number + 1}: {name} {gaps[name][-1]:.2f} s", flush=True)
    finally:
        plain.close()
    medians = {name: statistics.median(each) for name, each in gaps.items()}
    return {**gaps, "median": medians, "ratio": round(medians["warm"] / medians["plain"], 4)}


def _gap(side: Side, other: Side) -> float:
    calm = newest(side.commits)
    wait_for("a side that keeps committing", lambda: newest(side.commits) > calm + 3, timeout_s=120)
    with _frozen(other.processes()):
        side.replace()
        last = newest(side.commits)
        wait_for("commits after the handover", lambda: newest(side.commits) > last + 2, timeout_s=120)
        times = [mtime for _, mtime in commits(side.commits)]
    ended = side.ended_at
    return min(each for each in times if each > ended) - max(each for each in times if each <= ended)


@contextmanager
def _frozen(processes: list[psutil.Process]) -> Iterator[None]:
    """Take their cores away, give them back at the end."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def _fill(bed: Bed, keys: int) -> None:
    """One file with a sale of every key."""
    chance = random.Random(7)
    rows = [(f"seed-{key}", f"c{key:03d}", chance.randrange(1, 1000)) for key in range(keys)]
    write_whole(bed.input / "sales", "000000.csv", rows)
    write_whole(bed.input / "events", "000000.csv", [("seed", "c000", "sale", 1)])


def commits(folder: Path) -> list[tuple[int, float]]:
    """Batch and time of each commit there is."""
    if not folder.is_dir():
        return []
    return [(int(entry.name), entry.stat().st_mtime) for entry in os.scandir(folder) if entry.name.isdecimal()]


def newest(folder: Path) -> int:
    """The newest committed batch, -1 before the first."""
    return max((number for number, _ in commits(folder)), default=-1)


if __name__ == "__main__":
    raise SystemExit(main())
