"""The broker campaign as a whole: every named step with the broker killed and with it frozen, then seeds."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.campaign.broker_bed import fresh_broker_bed
from bench.campaign.broker_stage import BrokerStage, names_of
from bench.campaign.results import Results

CASES_A_SITE = 6
"""A rebuild reads all of the topic again: a site that lives for long has much of it."""


GROUPS = (
    "broker/kill@standby",
    "broker/freeze@standby",
    "broker/kill@catch-up+freeze@compare+kill@drain+freeze@first-commit+kill@probation",
    "broker/freeze@catch-up+kill@compare+freeze@drain+kill@first-commit+freeze@probation",
)
"""Without its broker a candidate is refused as a rule; further on, one switch finds it gone at every step."""


def run_broker(root: Path, results: Results, *, points: list[str], seeds: int) -> int:
    """Run what was not run yet; 1 when a case found damage or a named step was never hit. ``points``: only these."""
    named = [name for group in GROUPS for name in names_of(group) if not points or name in points]
    _play(root, results, points or list(GROUPS))
    # What one outage kept another from being reached is tried again alone.
    _play(root, results, [name for name in named if name not in results.hit])
    _play(root, results, [f"seed:{seed}" for seed in range(seeds)])
    return results.conclude(named)


def _play(root: Path, results: Results, plans: list[str]) -> None:
    while waiting := [plan for plan in plans if plan not in results.cases]:
        _play_on_one_site(root, results, waiting[:CASES_A_SITE])


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
