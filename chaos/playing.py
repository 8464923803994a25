"""Playing a campaign's cases: those that its results do not hold yet, on a fresh site every few of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from chaos.cases import Stage
from chaos.results import Results

CASES_A_SITE = 8
"""A rebuild reads all of the input again: a site that lives for long has much of it."""

OpenStage = Callable[[Path], AbstractContextManager[Stage]]
"""A stage on a fresh site in that directory, which ends with the body."""


def play(root: Path, results: Results, plans: list[str], open_stage: OpenStage) -> None:
    """Every plan that was not played yet, in order."""
    while waiting := [plan for plan in plans if plan not in results.cases]:
        _play_on_one_site(root, results, waiting[:CASES_A_SITE], open_stage)


def _play_on_one_site(root: Path, results: Results, plans: list[str], open_stage: OpenStage) -> None:
    """Up to the first damage: that site is kept aside, and no other case is held against it."""
    with open_stage(root) as stage:
        for plan in plans:
            result = stage.play(plan)
            results.add_case(result)
            if not result.clean:
                break
    if not result.clean:
        aside = root.with_name(f"{root.name}-damaged-{len(results.cases)}")
        shutil.rmtree(aside, ignore_errors=True)
        root.rename(aside)
