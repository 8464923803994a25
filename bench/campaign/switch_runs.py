"""The switch campaign as a whole: each scenario's points, then seeds, on a fresh site every few cases."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.bed import ROOT, fresh_bed
from bench.campaign.results import Results
from bench.campaign.scenarios import plan_points
from bench.campaign.switching import SwitchStage

CASES_A_SITE = 8
"""A rebuild reads all of the input again: a site that lives for long has much of it."""
_JOBS = [ROOT / "bench/campaign/jobs/ledgers.py"]


def run_switching(
    root: Path, results: Results, scenarios: list[str], *, points: list[str], seeds: range, everywhere: bool
) -> int:
    """Run what was not run yet; 1 when a case found damage or a point was never hit. ``points``: only these."""
    _trace(root, results, scenarios)
    traced = {name: results.traced[name] for name in scenarios}
    if points:
        traced = {name: [each for each in reached if each in points] for name, reached in traced.items()}
    plans = plan_points(traced, everywhere=everywhere)
    _play(root, results, plans)
    # What one death kept another from being reached is tried again alone.
    alone = plan_points({name: _missed(results, each) for name, each in traced.items()}, everywhere=False)
    _play(root, results, [f"{head}:{name}" for head, _, group in _parts(alone) for name in group.split("+")])
    _play(root, results, [f"seed:{seed}" for seed in seeds])
    return results.conclude({each for reached in traced.values() for each in reached})


def _trace(root: Path, results: Results, scenarios: list[str]) -> None:
    missing = [name for name in scenarios if name not in results.traced]
    if not missing:
        return
    with fresh_bed(root, _JOBS) as bed:
        stage = SwitchStage(bed)
        for name in missing:
            results.add_trace(name, stage.discover_in(name))
            print(f"{name}: {len(results.traced[name])} points", flush=True)


def _play(root: Path, results: Results, plans: list[str]) -> None:
    while waiting := [plan for plan in plans if plan not in results.cases]:
        _play_on_one_site(root, results, waiting[:CASES_A_SITE])


def _play_on_one_site(root: Path, results: Results, plans: list[str]) -> None:
    """Up to the first damage: that site is kept aside, and no other case is held against it."""
    with fresh_bed(root, _JOBS) as bed:
        stage = SwitchStage(bed)
        for plan in plans:
            result = stage.play(plan)
            results.add_case(result)
            if not result.clean:
                break
    if not result.clean:
        aside = root.with_name(f"{root.name}-damaged-{len(results.cases)}")
        shutil.rmtree(aside, ignore_errors=True)
        root.rename(aside)


def _missed(results: Results, points: list[str]) -> list[str]:
    return [name for name in points if name not in results.hit]


def _parts(plans: list[str]) -> list[tuple[str, str, str]]:
    return [plan.partition(":") for plan in plans]
