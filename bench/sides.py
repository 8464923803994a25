"""Two sides that read the same input and whose gaps are compared."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import psutil
import pyspark

from harness.bed import Bed
from harness.places import ROOT
from harness.producer import write_whole
from harness.waiting import wait_for
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import Tree

TRIGGER = "500 milliseconds"


class Side(Protocol):
    """A query whose release can be replaced while it is measured."""

    @property
    def commits(self) -> Tree:
        """The folder in which its current driver commits."""

    def replace(self) -> None:
        """Change its release."""

    def gap(self) -> float:
        """Return the seconds from the last commit before the change to the first one after it."""

    def processes(self) -> list[psutil.Process]:
        """Return the processes that run for it."""


class PlainSide:
    """The only query of a job under spark-submit; ``params`` returns the params of its first, second, … release.

    ``checkpoint`` is a URL when the checkpoint is not on this disk.
    """

    def __init__(self, bed: Bed, job: str, params: Callable[[int], dict[str, Any]], checkpoint: str = "") -> None:
        self.bed = bed
        self.checkpoint = checkpoint or str(bed.root / "plain" / "checkpoint")
        self.commits = tree_at(f"{self.checkpoint}/commits")
        self.ended_at = 0.0
        self._job, self._params = job, params
        self._release = 0
        self._driver: subprocess.Popen[bytes] | None = None

    def replace(self) -> None:
        """Stop the driver, wait until it has ended and submit the next one."""
        self.stop()
        self._release += 1
        before = newest(self.commits)
        own = self.bed.root / "plain"
        own.mkdir(exist_ok=True)
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        job = str(self.bed.jobs / f"{self._job}.py")
        script = str(ROOT / "bench/plain_driver.py")
        pythons = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
        params = json.dumps(self._params(self._release))
        with (own / "log").open("ab") as log:
            self._driver = subprocess.Popen(
                [
                    str(submit),
                    "--master",
                    self.bed.master or "local[2]",
                    script,
                    job,
                    self.checkpoint,
                    params,
                    str(own),
                ],
                env={**self.bed.environment, **pythons},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for("the plain driver's first commit", lambda: newest(self.commits) > before, timeout_s=180)

    def stop(self) -> None:
        """Send SIGTERM to the Python driver, and wait until all of its processes have ended."""
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
        """Return spark-submit's JVM and the Python process that it runs."""
        if self._driver is None:
            return []
        root = psutil.Process(self._driver.pid)
        return [*root.children(recursive=True), root]

    def gap(self) -> float:
        """Return the gap around the end of the previous driver."""
        return gap_around(self.ended_at, self.commits)

    def close(self) -> None:
        """Kill the driver, whatever state it is in."""
        if self._driver is not None:
            os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()


def replace_alone(side: Side, other: Side) -> float:
    """Replace the release of one side while the other is frozen, and return its gap."""
    calm = newest(side.commits)
    wait_for("a side that keeps committing", lambda: newest(side.commits) > calm + 3, timeout_s=120)
    with _frozen(other.processes()):
        side.replace()
        last = newest(side.commits)
        wait_for("commits after it was replaced", lambda: newest(side.commits) > last + 2, timeout_s=120)
        return side.gap()


def deploy(bed: Bed, job: str, params: dict[str, Any], *ask: str) -> None:
    """Deploy through the command line; raises SystemExit when the deploy fails."""
    run = bed.command("deploy", job, "--params", json.dumps(params), "--reason", "bench", *ask)
    if run.returncode:
        raise SystemExit(run.stdout + run.stderr)


@contextmanager
def _frozen(processes: list[psutil.Process]) -> Iterator[None]:
    """Suspend the processes, and resume them at the end."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def fill(bed: Bed, keys: int) -> None:
    """Write one input file with a sale of every key."""
    chance = random.Random(7)
    rows = [(f"seed-{key}", f"c{key:03d}", chance.randrange(1, 1000)) for key in range(keys)]
    write_whole(bed.input / "sales", "000000.csv", rows)
    write_whole(bed.input / "events", "000000.csv", [("seed", "c000", "sale", 1)])


def gap_around(ended: float, folder: Tree) -> float:
    """Return the seconds between the last commit before a moment and the first one after it."""
    times = [mtime for _, mtime in commits(folder)]
    return min(each for each in times if each > ended) - max(each for each in times if each <= ended)


def commits(folder: Tree) -> list[tuple[int, float]]:
    """Return the batch and the time of each existing commit."""
    found = folder.fresh().look().files
    return [(int(name), stamp.modified / 1e9) for name, stamp in found.items() if name.isdecimal()]


def newest(folder: Tree) -> int:
    """Return the newest committed batch, or -1 before the first commit."""
    return max((number for number, _ in commits(folder)), default=-1)
