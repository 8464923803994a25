"""Deploys that die in the middle, on real drivers; the whole campaign is ``make campaign``."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.campaign.cases import Stage
from bench.campaign.switching import SwitchStage
from harness.bed import fresh_bed
from harness.places import ROOT
from streamkeeper.model.ways import Way

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
SWITCHED_AT = (
    "record.shadow-appointed.after",
    "act.go.appoint.before",
    "sink.swapped",
    "act.snapshot.takecutoversnapshots.after",
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


def test_a_switch_that_dies_is_carried_on_and_no_reader_sees_it(tmp_path):
    """Rebuild, handoff and resume in one deploy, killed four times, once in the swap: no total ever goes back."""
    with fresh_bed(tmp_path / "site", [ROOT / "bench/campaign/jobs/ledgers.py"]) as bed:
        stage = SwitchStage(bed)
        stage.start()
        result = stage.play(f"switch/points:{'+'.join(SWITCHED_AT)}")
        state = stage.state()
    assert result.hits == list(SWITCHED_AT)
    assert result.outcomes[-1] == "succeeded"
    assert result.damage == []
    ways = list(state.operations.values())[-1].ways
    assert {query: each.way for query, each in ways.items()} == {
        "totals": Way.REBUILD,
        "copies": Way.HANDOFF,
        "audit": Way.RESUME,
    }
    assert {query: each.version for query, each in ways.items()} == state.current
