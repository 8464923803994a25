"""The broker campaign as a whole: every named step with the broker killed and with it frozen, then seeds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.campaign.broker_bed import fresh_broker_bed
from bench.campaign.broker_stage import BrokerStage
from bench.campaign.playing import play
from bench.campaign.results import Results
from bench.campaign.striking import names_of

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
    play(root, results, points or list(GROUPS), _open)
    # What one outage kept another from being reached is tried again alone.
    play(root, results, [name for name in named if name not in results.hit], _open)
    play(root, results, [f"seed:{seed}" for seed in range(seeds)], _open)
    return results.conclude(named)


@contextmanager
def _open(root: Path) -> Iterator[BrokerStage]:
    with fresh_broker_bed(root) as bed:
        yield BrokerStage(bed)
