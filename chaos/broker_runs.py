"""The whole broker campaign: every named step with the broker killed and with it frozen, then seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chaos.broker_bed import fresh_broker_bed
from chaos.broker_stage import BrokerStage
from chaos.playing import play
from chaos.results import Results
from chaos.striking import names_of

GROUPS = (
    "broker/kill@standby",
    "broker/freeze@standby",
    "broker/kill@catch-up+freeze@compare+kill@drain+freeze@first-commit+kill@probation",
    "broker/freeze@catch-up+kill@compare+freeze@drain+kill@first-commit+freeze@probation",
)
"""The named cases; a candidate without its broker is usually refused, so ``standby`` has cases of its own, and a later
switch loses the broker at every further step.
"""


def run_broker(root: Path, results: Results, *, groups: Sequence[str], seeds: range) -> int:
    """Run the cases that are not in the results yet: the named groups, then the seeds; return 1 when one found damage
    or a named step was never hit.
    """
    named = [name for group in groups for name in names_of(group)]
    play(root, results, list(groups), _open)
    # What one outage kept another from being reached is tried again alone.
    play(root, results, [name for name in named if name not in results.hit], _open)
    play(root, results, [f"seed:{seed}" for seed in seeds], _open)
    return results.conclude(named)


@contextmanager
def _open(root: Path) -> Iterator[BrokerStage]:
    with fresh_broker_bed(root) as bed:
        yield BrokerStage(bed)
