"""``python -m bench.campaign``: every named point once, then seeds; resumable, one JSON line a case.

--root DIR        where the site lives (build/campaign)
--results FILE    where the lines go; cases already in it are not run again
--points a,b      only these points; --seeds N: how many random cases after them (60)
--controls        the negative controls instead: fence, death proof and gate switched off must give damage, else exit 1
--only a,b        of the controls, only these
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import Counter
from pathlib import Path

import msgspec

from bench.bed import ROOT, fresh_bed
from bench.campaign.cases import CaseResult, Stage, is_of_a_broken_release, is_of_a_first_deploy
from bench.campaign.controls import CONTROLS, PROTECTED, run_control

DRIVER_ROOMS = frozenset({"audit", "driver", "sink", "supervisor"})


def main() -> int:
    """Run the campaign; 1 when a case found damage, or a negative control found none."""
    chosen = _arguments()
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    if chosen.controls:
        return _run_controls(chosen)
    commit = _commit()
    done = _read(chosen.results, commit)

    def play(stage: Stage, plans: list[str]) -> None:
        for plan in plans:
            if plan in done:
                continue
            result = stage.play(plan)
            done[plan] = result
            with chosen.results.open("a") as file:
                file.write(json.dumps({"commit": commit, **msgspec.to_builtins(result)}) + "\n")
            print(result.sentence, flush=True)

    jobs = [ROOT / "bench/campaign/jobs/ledgers.py"]
    with fresh_bed(chosen.root, jobs) as bed:
        stage = Stage(bed)
        points = chosen.points.split(",") if chosen.points else stage.discover()
        later = [name for name in points if not is_of_a_first_deploy(name)]
        play(stage, [f"points:{'+'.join(group)}" for group in group_points(later)])
        # What one death kept another from being reached is tried again alone.
        play(stage, [f"points:{name}" for name in later if name not in _hit(done)])
        play(stage, [f"seed:{seed}" for seed in range(chosen.seeds)])
    for name in filter(is_of_a_first_deploy, points):
        if f"first:{name}" not in done:
            with fresh_bed(chosen.root.with_name(f"{chosen.root.name}-first"), jobs) as bed:
                play(Stage(bed), [f"first:{name}"])
    return _conclude(list(done.values()), points)


def _hit(done: dict[str, CaseResult]) -> set[str]:
    return {point for result in done.values() for point in result.hits}


def group_points(points: list[str]) -> list[list[str]]:
    """Which points one deploy dies at: many of the operation's own, few of a driver's, whose restarts are counted."""
    falling = [name for name in points if is_of_a_broken_release(name)]
    driver = [name for name in points if name.split(".")[0] in DRIVER_ROOMS and name not in falling]
    rest = [name for name in points if name not in falling and name not in driver]
    batches = [(rest, 12), (driver, 3), (falling, 6)]
    return [names[start : start + size] for names, size in batches for start in range(0, len(names), size)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.campaign", description="Kill deploys and look at the ledger.")
    parser.add_argument("--root", type=Path, default=ROOT / "build/campaign")
    parser.add_argument("--results", type=Path, default=ROOT / "build/campaign.jsonl")
    parser.add_argument("--points", default="")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--controls", action="store_true")
    parser.add_argument("--only", default=",".join(CONTROLS))
    return parser.parse_args()


def _commit() -> str:
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def _read(file: Path, commit: str) -> dict[str, CaseResult]:
    if not file.exists():
        return {}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    cases = [line for line in lines if "case" in line and line["commit"] == commit]
    return {line["case"]: msgspec.convert(line, CaseResult) for line in cases}


def _conclude(results: list[CaseResult], wanted: list[str]) -> int:
    hits = Counter(point for result in results for point in result.hits)
    for point, count in sorted(hits.items()):
        print(f"{count:4}  {point}")
    missed = [name for name in wanted if name not in hits]
    damaged = [result.case for result in results if not result.clean]
    print(f"{len(results)} cases, {len(hits)} points hit, {len(missed)} not hit, {len(damaged)} damaged")
    for case in (*missed, *damaged):
        print(f"  {case}")
    return 1 if damaged or missed else 0


def _run_controls(chosen: argparse.Namespace) -> int:
    wrong = 0
    only = chosen.only.split(",")
    runs = [*((name, False) for name in CONTROLS), *((name, True) for name in PROTECTED)]
    for name, protected in [each for each in runs if each[0] in only]:
        found = run_control(name, chosen.root, protected=protected)
        wrong += bool(found) is protected
        line = {"commit": _commit(), "control": name, "switched_off": not protected, "found": found}
        with chosen.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{name} {'on' if protected else 'off'}: {found or 'no damage'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
