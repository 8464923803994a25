"""The switch campaign as a whole: each scenario's points, then seeds, on a fresh site every few cases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.bed import ROOT, fresh_bed
from bench.campaign.playing import play
from bench.campaign.results import Results
from bench.campaign.scenarios import plan_points
from bench.campaign.switching import SwitchStage

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
    play(root, results, plans, _open)
    # What one death kept another from being reached is tried again alone.
    alone = plan_points({name: _missed(results, each) for name, each in traced.items()}, everywhere=False)
    play(root, results, [f"{head}:{name}" for head, _, group in _parts(alone) for name in group.split("+")], _open)
    play(root, results, [f"seed:{seed}" for seed in seeds], _open)
    return results.conclude({each for reached in traced.values() for each in reached})


@contextmanager
def _open(root: Path) -> Iterator[SwitchStage]:
    with fresh_bed(root, _JOBS) as bed:
        yield SwitchStage(bed)


def _trace(root: Path, results: Results, scenarios: list[str]) -> None:
    missing = [name for name in scenarios if name not in results.traced]
    if not missing:
        return
    with _open(root) as stage:
        for name in missing:
            results.add_trace(name, stage.discover_in(name))
            print(f"{name}: {len(results.traced[name])} points", flush=True)


def _missed(results: Results, points: list[str]) -> list[str]:
    return [name for name in points if name not in results.hit]


def _parts(plans: list[str]) -> list[tuple[str, str, str]]:
    return [plan.partition(":") for plan in plans]
