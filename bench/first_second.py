"""``python -m bench.first_second``: measure how long a command takes before it does its work, against a bare start of
Python.

Measures ``streamkeeper --help``, ``jobs``, ``status`` of a job, ``deploy`` of a first release until the first entry of
the journal exists, and the import of every file in ``dags/``. The two lower bounds are a Python that does nothing and
one that imports typer. Each round runs everything once, so that other work on the machine affects all of them equally;
the first round fills the caches and does not count. Figures are medians. ``--before`` measures another checkout in the
same rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.report import write_report
from harness.checkout import read_origin
from harness.places import ROOT

JOB = "orders"
JOB_FILE = f"""
from streamkeeper import streaming_job

@streaming_job(name="{JOB}")
def {JOB}(spark, params):
    yield from ()
"""
COMMAND = ("-m", "streamkeeper.cli.main")
FIRST_ENTRY = "record.operation-started.after"
"""The failpoint that kills ``deploy`` right after the first entry of the journal."""
IMPORT_DAGS = """
import pathlib, runpy, sys
for file in pathlib.Path(sys.argv[1]).glob("*.py"):
    runpy.run_path(str(file))
"""
FLOORS = {"python": ("-c", "pass"), "typer": ("-c", "import typer")}


class Took(NamedTuple):
    """The time that one run took."""

    wall_s: float
    cpu_s: float
    """Seconds of CPU time of the process and its child processes."""


class Side(NamedTuple):
    """A checkout that is measured."""

    name: str
    root: Path

    def run(self, scratch: Path) -> dict[str, Took]:
        """Run every command once; ``scratch`` contains a prepared home and is the place for new ones."""
        environ = _environment(self.root, scratch)
        known = {**environ, "STREAMKEEPER_HOME": str(scratch / "home")}
        return {
            "help": _run((*COMMAND, "--help"), known),
            "jobs": _run((*COMMAND, "jobs"), known),
            "status": _run((*COMMAND, "status", JOB), known),
            "deploy": _deploy(environ, scratch),
            "dags": _run(("-c", IMPORT_DAGS, str(self.root / "dags")), known),
        }


def main() -> int:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(prog="bench.first_second", description="The first second of every command.")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--before", type=Path, default=None, help="another checkout to measure in the same rounds")
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    sides = [Side("now", ROOT), *([Side("before", chosen.before.resolve())] if chosen.before else [])]
    figures: dict[str, object] = {"load_before": round(os.getloadavg()[0], 1), "rounds": chosen.rounds}
    if chosen.before:
        figures["before_of"] = read_origin(chosen.before)
    with TemporaryDirectory(prefix="streamkeeper-first-second-") as scratch:
        _prepare(Path(scratch))
        figures |= _measure(sides, Path(scratch), chosen.rounds)
    file = write_report("first-second", figures, into=chosen.out)
    print(json.dumps(figures, indent=1))
    print(f"written to {file}")
    return 0


def _prepare(scratch: Path) -> None:
    """Create an installation with one pushed job and one pass of the watch."""
    (scratch / "jobs").mkdir()
    (scratch / "jobs" / f"{JOB}.py").write_text(JOB_FILE)
    environ = {**_environment(ROOT, scratch), "STREAMKEEPER_HOME": str(scratch / "home")}
    _run((*COMMAND, "release", "push", JOB), environ)
    _run((*COMMAND, "watch", "--once"), environ)


def _measure(sides: Sequence[Side], scratch: Path, rounds: int) -> dict[str, object]:
    runs: dict[tuple[str, str], list[Took]] = {}
    for number in range(rounds + 1):
        for floor, words in FLOORS.items():
            _keep(runs, ("floor", floor), _run(words, os.environ), warm=number > 0)
        for side in sides:
            for name, took in side.run(scratch).items():
                _keep(runs, (side.name, name), took, warm=number > 0)
    medians = {
        key: Took(median(each.wall_s for each in took), median(each.cpu_s for each in took))
        for key, took in runs.items()
    }
    figures: dict[str, object] = {"floors": {floor: _seconds(medians["floor", floor]) for floor in FLOORS}}
    for side in sides:
        figures[side.name] = {
            name: _seconds(took) | _ratios(took, medians) for (of, name), took in medians.items() if of == side.name
        }
    return figures


def _keep(runs: dict[tuple[str, str], list[Took]], key: tuple[str, str], took: Took, *, warm: bool) -> None:
    if warm:
        runs.setdefault(key, []).append(took)


def _seconds(took: Took) -> dict[str, float]:
    return {"wall_s": round(took.wall_s, 3), "cpu_s": round(took.cpu_s, 3)}


def _ratios(took: Took, medians: Mapping[tuple[str, str], Took]) -> dict[str, float]:
    """Return the times as multiples of each lower bound."""
    ratios: dict[str, float] = {}
    for floor in FLOORS:
        bare = medians["floor", floor]
        ratios[f"wall_to_{floor}"] = round(took.wall_s / bare.wall_s, 2)
        ratios[f"cpu_to_{floor}"] = round(took.cpu_s / bare.cpu_s, 2)
    return ratios


def _deploy(environ: Mapping[str, str], scratch: Path) -> Took:
    """Deploy into a new home until the first entry of the journal exists."""
    with TemporaryDirectory(dir=scratch) as home:
        there = {**environ, "STREAMKEEPER_HOME": home, "STREAMKEEPER_CRASH": FIRST_ENTRY}
        took = _run((*COMMAND, "deploy", JOB), there, ends_with=-9)
        assert len(list(Path(home).glob(f"store/registry/{JOB}/journal/*"))) == 1
    return took


def _run(words: Sequence[str], environ: Mapping[str, str], *, ends_with: int = 0) -> Took:
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *words], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    took = Took(time.monotonic() - began, usage.ru_utime + usage.ru_stime)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != ends_with:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return took


def _environment(root: Path, scratch: Path) -> dict[str, str]:
    """Return the environment variables for a command of this checkout; compiled modules are kept on disk, as they are
    for a user.
    """
    ours = ("STREAMKEEPER_", "PYTHONDONTWRITEBYTECODE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return {**kept, "PYTHONPATH": str(root / "plugins"), "STREAMKEEPER_JOBS": str(scratch / "jobs")}


if __name__ == "__main__":
    raise SystemExit(main())
