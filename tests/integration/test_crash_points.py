"""Tests of deploys that are killed at crash points, with real drivers; ``make campaign`` runs the whole campaign."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.cases import Stage
from chaos.switching import SwitchStage
from harness.bed import fresh_bed
from harness.places import ROOT
from streamkeeper.model.records.transitions import Transition

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

DRIVER_AT = "driver.batch.written"
SWITCH_AT = (
    "record.shadow-appointed.after",
    "sink.swapped",
    "act.go.send.before",
)
"""One point before the cutover, one during it and one after it; the simulation is killed at every point
(``tests/simulation/test_crash_points.py``).
"""


class Deploys(SwitchStage):
    """The deploys of the campaign, without a probation of more than one batch."""

    haste = ("--drain-s", "20", "--first-commit-s", "240", "--probation-batches", "0", "--probation-s", "240")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deploys]:
    """An installation for one job with a table, a file and a ``foreach`` sink, with continuous input."""
    root = tmp_path_factory.mktemp("campaign") / "site"
    with fresh_bed(root, [ROOT / "chaos/jobs/ledgers.py"]) as bed:
        yield Deploys(bed)


def test_a_driver_killed_between_write_and_commit_loses_no_row(stage: Deploys) -> None:
    """After a driver is killed between the write and the commit of a batch, the deploy succeeds, no row is lost or
    doubled, and exactly one driver runs.
    """
    result = Stage.play(stage, f"first:{DRIVER_AT}")
    assert result.hits == [DRIVER_AT]
    assert result.outcomes == ["succeeded"]
    assert result.damage == []


@pytest.mark.storage
def test_a_switch_killed_three_times_succeeds_unseen_by_readers(stage: Deploys) -> None:
    """A deploy that combines a rebuild, a handoff and a resume is killed three times, once during the swap, and still
    succeeds: no total ever decreases, no row is lost or doubled, and exactly one driver runs.
    """
    result = stage.play(f"switch/points:{'+'.join(SWITCH_AT)}")
    state = stage.state()
    assert result.hits == list(SWITCH_AT)
    assert result.outcomes[-1] == "succeeded"
    assert result.damage == []
    ways = list(state.operations.values())[-1].transitions
    assert {query: each.way for query, each in ways.items()} == {
        "totals": Transition.REBUILD,
        "copies": Transition.HANDOFF,
        "audit": Transition.RESUME,
    }
    assert {query: each.version for query, each in ways.items()} == state.current
