"""Runs the cases of a campaign that its results do not contain yet, on a fresh installation every few cases."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from chaos.cases import Stage
from chaos.results import Results

CASES_A_SITE = 8
"""The most cases on one installation: a rebuild reads all of the input, which grows with the installation's age."""

OpenStage = Callable[[Path], AbstractContextManager[Stage]]
"""Opens a stage on a fresh installation in that directory, for the duration of the context."""


def play(root: Path, results: Results, plans: list[str], open_stage: OpenStage) -> None:
    """Run every case that is not in the results yet, in order."""
    while waiting := [plan for plan in plans if plan not in results.cases]:
        _play_on_one_site(root, results, waiting[:CASES_A_SITE], open_stage)


def _play_on_one_site(root: Path, results: Results, plans: list[str], open_stage: OpenStage) -> None:
    """Run cases up to the first damage; a damaged installation is kept aside and not used for further cases."""
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
