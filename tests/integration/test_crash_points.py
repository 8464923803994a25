"""Deploys that die in the middle, on real drivers; the whole campaign is ``make campaign``."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.bed import ROOT, fresh_bed
from bench.campaign.cases import Stage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

GROUPS = (
    (
        "act.drain.send.after",
        "record.instance-appointed.before",
        "act.go.send.before",
        "record.release-promoted.before",
    ),
    ("driver.fence.after", "driver.batch.written", "sink.staged"),
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A site that serves one job with a table, a file and a foreach sink, with input coming."""
    root: Path = tmp_path_factory.mktemp("campaign") / "site"
    with fresh_bed(root, [ROOT / "bench/campaign/jobs/ledgers.py"]) as bed:
        yield Stage(bed)


@pytest.mark.parametrize("points", GROUPS, ids=["operation", "driver"])
def test_a_deploy_that_dies_is_carried_on_and_the_ledger_is_clean(stage, points):
    """Killed at each point in turn and run again: nothing lost, nothing doubled, one driver left, and it serves."""
    result = stage.play("points:" + "+".join(points))
    assert result.hits == list(points)
    assert result.outcomes[-1] in ("succeeded", "fell-back")
    assert result.damage == []
