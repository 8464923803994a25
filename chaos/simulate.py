"""``python -m chaos.simulate``: plays schedules of the simulated control plane, one per seed, until stopped.

--first N      the first seed (1)
--count N      play so many seeds (all)
--minutes M    begin no further block after so long (none)
--workers N    so many processes (1 per core)
--bug NAME     put a known bug back, and stop at the first seed that finds it; ``--bug all`` does so for each
--seed N       play one seed, shrink it if it breaks a rule, and print it as a timeline
--coverage     print what the blocks at this state have reached, and what they have not
--results FILE one line per block of 500 seeds (bench/results/simulation.jsonl). A block that has a line at this state
               of the code and the simulator is not played again

Exits with 1 if a schedule breaks a rule, or if a known bug is not found.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from chaos.failpoints import named_points
from harness.checkout import read_code, read_origin
from harness.places import ROOT

RESULTS = ROOT / "bench" / "results" / "simulation.jsonl"
BUGS_RESULTS = ROOT / "bench" / "results" / "simulation-bugs.jsonl"
SIMULATOR = "harness/simulation"
BLOCK = 500


def main() -> int:
    """Run what the command line requests."""
    chosen = _arguments()
    # A schedule sees thousands of drivers fail, each with a line in the log.
    logging.disable(logging.CRITICAL)
    if chosen.coverage:
        print(_report(chosen.results or RESULTS))
        return 0
    if chosen.seed is not None:
        return _show(chosen.seed)
    if chosen.bug:
        return _find_bugs(chosen)
    return _play_blocks(chosen)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos.simulate", description="Schedules of the simulated control plane.")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=None)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--bug", default="")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--results", type=Path, default=None)
    return parser.parse_args()


def _show(seed: int) -> int:
    from harness.simulation.plan import draw
    from harness.simulation.playing import play, shrink, timeline

    told = play(draw(seed))
    if told.broken:
        told = shrink(told)
    print(timeline(told))
    return 1 if told.broken else 0


def _play_blocks(chosen: argparse.Namespace) -> int:
    results = chosen.results or RESULTS
    here = _here()
    done = {line["first"] for line in _lines(results) if _is_of(line, here)}
    stop_at = time.monotonic() + 60.0 * chosen.minutes
    last = chosen.first + chosen.count if chosen.count is not None else sys.maxsize
    broken = 0
    with multiprocessing.Pool(chosen.workers) as pool:
        blocks = _blocks(chosen.first, last, done, stop_at)
        try:
            for line in pool.imap_unordered(partial(_play_block, stop_at=stop_at), blocks):
                if line is None:
                    continue
                _append(results, {**here, **line})
                broken += len(line["broken"])
                rate = line["count"] / line["seconds"]
                told = f"BROKEN {line['broken']}" if line["broken"] else "none broken"
                print(f"seeds from {line['first']}: {line['count']} schedules, {rate:.1f} a second, {told}")
        except KeyboardInterrupt:
            pool.terminate()
            print("stopped: the next run goes on with the blocks that have no line yet")
    print(_summary([line for line in _lines(results) if _is_of(line, here)]))
    return 1 if broken else 0


def _blocks(first: int, last: int, done: set[int], stop_at: float) -> Iterator[tuple[int, int]]:
    for begin in range(first, last, BLOCK):
        if time.monotonic() > stop_at:
            return
        if begin not in done:
            yield begin, min(begin + BLOCK, last)


def _play_block(seeds: tuple[int, int], *, stop_at: float) -> dict[str, Any] | None:
    """Play the seeds from the first up to, but not including, the second; return None after ``stop_at``.

    The pool fetches blocks in advance, so thousands of them are still queued when the time is up.
    """
    from harness.simulation.coverage import Covered
    from harness.simulation.patches import installed
    from harness.simulation.plan import draw
    from harness.simulation.playing import play

    began = time.monotonic()
    if began > stop_at:
        return None
    logging.disable(logging.CRITICAL)
    outcomes: Counter[str] = Counter()
    covered = Covered()
    broken, steps = [], 0
    with installed():
        for seed in range(*seeds):
            told = play(draw(seed))
            outcomes.update(told.outcomes)
            covered |= told.covered
            steps += told.steps
            if told.broken:
                broken.append({"seed": seed, "rule": told.broken})
    return {
        "first": seeds[0],
        "count": seeds[1] - seeds[0],
        "broken": broken,
        "outcomes": dict(sorted(outcomes.items())),
        "covered": {name: sorted(reached) for name, reached in vars(covered).items()},
        "steps": steps,
        "seconds": round(time.monotonic() - began, 1),
    }


def _find_bugs(chosen: argparse.Namespace) -> int:
    from harness.simulation.known_bugs import BUGS

    names = [bug.name for bug in BUGS] if chosen.bug == "all" else chosen.bug.split(",")
    most = chosen.count or 50_000
    found = 0
    with multiprocessing.Pool(chosen.workers) as pool:
        for line in pool.imap_unordered(partial(_find_bug, first=chosen.first, most=most), names):
            _append(chosen.results or BUGS_RESULTS, {**_here(), **line})
            told = f"seed {line['seed']} of {line['schedules']}: {line['rule']}" if line["seed"] else "not found"
            print(f"{line['bug']}: {told}")
            found += line["seed"] is not None
    return 0 if found == len(names) else 1


def _find_bug(name: str, *, first: int, most: int) -> dict[str, Any]:
    from harness.simulation.known_bugs import put_back
    from harness.simulation.patches import installed
    from harness.simulation.plan import draw
    from harness.simulation.playing import play

    logging.disable(logging.CRITICAL)
    with put_back(name), installed():
        for seed in range(first, first + most):
            told = play(draw(seed))
            if told.broken:
                return {"bug": name, "seed": seed, "schedules": seed - first + 1, "rule": told.broken}
    return {"bug": name, "seed": None, "schedules": most, "rule": ""}


def _summary(lines: list[dict[str, Any]]) -> str:
    schedules, seconds = sum(line["count"] for line in lines), sum(line["seconds"] for line in lines)
    operations = sum(sum(line["outcomes"].values()) for line in lines)
    broken = [each["seed"] for line in lines for each in line["broken"]]
    rate = operations / seconds if seconds else 0.0
    return (
        f"{schedules:,} schedules with {operations:,} operations, {rate:.0f} operations a second and core,"
        f" broken: {broken or 'none'}"
    )


def _report(results: Path) -> str:
    """Return what the blocks at this state of the code have reached, and what they have not."""
    from harness.simulation.coverage import every_decision, every_end, every_pair

    here = _here()
    lines = [line for line in _lines(results) if _is_of(line, here)]
    everything = {
        "points": ("failpoints", named_points()),
        "decisions": ("decisions of the ladders", every_decision()),
        "ends": ("steps at which an operation ended, with its outcome (not all are possible)", every_end()),
        "pairs": ("open operations and requests that came then", every_pair()),
    }
    told = [_summary(lines)]
    for name, (what, all_names) in everything.items():
        reached = {each for line in lines for each in line["covered"][name]}
        missing = sorted(all_names - reached)
        told += [
            "",
            f"{what}: {len(all_names) - len(missing)} of {len(all_names)}",
            *(f"  - {each}" for each in missing),
        ]
    return "\n".join(told)


def _here() -> dict[str, Any]:
    return {**read_origin(), "simulator": read_code(folders=[SIMULATOR]), "cores": os.cpu_count()}


def _is_of(line: dict[str, Any], here: dict[str, Any]) -> bool:
    return (line["code"], line["simulator"]) == (here["code"], here["simulator"])


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _append(file: Path, line: dict[str, Any]) -> None:
    with open(file, "a") as opened:
        opened.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
