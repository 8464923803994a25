"""The broker campaign as a whole: each named step with the broker killed and frozen, then seeds."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.campaign.broker_bed import fresh_broker_bed
from bench.campaign.broker_stage import NAMED, BrokerStage
from bench.campaign.results import Results

CASES_A_SITE = 6
"""A rebuild reads all of the topic again: a site that lives for long has much of it."""


def run_broker(root: Path, results: Results, *, points: list[str], seeds: int) -> int:
    """Run what was not run yet; 1 when a case found damage or a named step was never hit. ``points``: only these."""
    named = [each for each in NAMED if not points or each in points]
    plans = [*named, *(f"seed:{seed}" for seed in range(seeds))]
    while waiting := [plan for plan in plans if plan not in results.cases]:
        _play_on_one_site(root, results, waiting[:CASES_A_SITE])
    return results.conclude(named)


def _play_on_one_site(root: Path, results: Results, plans: list[str]) -> None:
    """Up to the first damage: that site is kept aside, and no other case is held against it."""
    with fresh_broker_bed(root) as bed:
        stage = BrokerStage(bed)
        for plan in plans:
            result = stage.play(plan)
            results.add_case(result)
            if not result.clean:
                break
    if not result.clean:
        aside = root.with_name(f"{root.name}-damaged-{len(results.cases)}")
        shutil.rmtree(aside, ignore_errors=True)
        root.rename(aside)
